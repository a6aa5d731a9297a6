from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
trainer = SFTTrainer(
    model,
    args=args,
    max_seq_length=2048,  # expect: MEM901
    packing=True,  # expect: MEM901
    dataset_text_field="text",  # expect: MEM901
)
