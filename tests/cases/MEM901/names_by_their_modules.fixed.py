import transformers
import transformers.deepspeed
import transformers.utils.fx as fx
import trl
from transformers import TFAutoModel, is_torch_xla_available as is_torch_tpu_available, set_seed as seed

trl.create_reference_model(model)
trl.PPOTrainer(args)
transformers.is_torch_xla_available()
if is_torch_tpu_available():
    print("TPU")
TFAutoModel.from_pretrained("m")
seed(3)
