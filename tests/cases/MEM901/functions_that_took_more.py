from peft import prepare_model_for_int8_training  # expect: MEM901
from transformers import is_torch_tpu_available  # expect: MEM901

if not is_torch_tpu_available(check_device=False):
    model = prepare_model_for_int8_training(model, output_embedding_layer_name="proj_out")
