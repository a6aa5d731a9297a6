# about: What is called for its effect alone goes with its import; what is used further stays.
from transformers import is_torch_tpu_available  # expect: MEM901
from transformers.integrations import is_ray_available as ray
from transformers.trainer_pt_utils import get_tpu_sampler
from transformers.utils import is_torch_bf16_available, logging  # expect: MEM901

value = is_torch_bf16_available()
names = {"get_tpu_sampler": 1}
print(logging, ray())
