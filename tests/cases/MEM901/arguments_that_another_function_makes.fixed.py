from trl import SFTConfig, SFTTrainer
from memlint_runtime import extend_arguments

def make(model, args, tokenizer, length):
    return SFTTrainer(
        model,
        args=extend_arguments(
            args,
            SFTConfig,
            max_length=length,
            packing=True,
        ),
        processing_class=tokenizer,
    )
