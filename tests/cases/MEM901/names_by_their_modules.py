# about: Names that are gone, asked of their modules.
import transformers
import transformers.deepspeed  # expect: MEM901
import transformers.utils.fx as fx  # expect: MEM901
import trl
from transformers import TFAutoModel, TFTrainer, is_torch_tpu_available  # expect: MEM901, MEM901, MEM901
from trl import set_seed as seed  # expect: MEM901
from trl.core import LengthSampler  # expect: MEM901

trl.create_reference_model(model)
trl.PPOTrainer(args)  # expect: MEM901
transformers.is_torch_tpu_available()  # expect: MEM901
if is_torch_tpu_available():
    print("TPU")
TFAutoModel.from_pretrained("m")
seed(3)
