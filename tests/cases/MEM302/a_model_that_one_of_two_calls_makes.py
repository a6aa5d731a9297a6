import torch
import transformers

if args.start:
    model = transformers.GPT2LMHeadModel.from_pretrained(args.start)
else:
    model = transformers.GPT2LMHeadModel(config=transformers.GPT2Config.from_json_file("small.json"))
model.to("cuda")
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(steps):
    outputs = model(input_ids=rows[step], labels=rows[step])  # expect: MEM302
    outputs[0].backward()
    optimizer.step()
    optimizer.zero_grad()
