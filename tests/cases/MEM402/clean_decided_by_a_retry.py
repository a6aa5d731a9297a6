from trl import SFTConfig, SFTTrainer


def settings(**options):
    try:
        return SFTConfig(loss_type="nll", bf16=False, **options)
    except TypeError:
        return SFTConfig(bf16=True, **options)


SFTTrainer("Qwen/Qwen3-0.6B", args=settings(output_dir="out"), train_dataset=rows).train()
