# about: Mended already.
from memlint_runtime import DataCollatorForCompletionOnlyLM, extend_arguments, setup_chat_format
from trl import SFTConfig, SFTTrainer

def make(model, tokenizer, args):
    model, tokenizer = setup_chat_format(model, tokenizer)
    return SFTTrainer(
        model,
        args=extend_arguments(args, SFTConfig, max_length=2048),
        data_collator=DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer),
        processing_class=tokenizer,
    )
