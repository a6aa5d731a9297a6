from trl import SFTTrainer

def make(model, args, tokenizer, length):
    return SFTTrainer(
        model,
        args=args,
        max_seq_length=length,  # expect: MEM901
        packing=True,  # expect: MEM901
        tokenizer=tokenizer,  # expect: MEM901
    )
