from transformers.integrations import is_ray_available as ray
from transformers.trainer_pt_utils import get_tpu_sampler
from transformers.utils import is_torch_bf16_available, logging

value = is_torch_bf16_available()
names = {"get_tpu_sampler": 1}
print(logging, ray())
