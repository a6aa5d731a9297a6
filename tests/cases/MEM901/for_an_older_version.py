# target: trl=0.15,transformers=4.48
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, args=SFTConfig("out"), max_seq_length=2048)  # expect: MEM901
