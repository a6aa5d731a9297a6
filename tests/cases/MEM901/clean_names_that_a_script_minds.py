# about: a name that is asked for, put there, caught, private, or of a module that is not known.
import transformers

if hasattr(transformers, "WarmupLinearSchedule"):
    schedule = transformers.WarmupLinearSchedule(optimizer)
transformers.of_our_own = make()
made = transformers.of_our_own(1)
folder = transformers.__path__
try:
    from transformers import OfAFork
except ImportError:
    OfAFork = None
from transformers.of_a_fork import Thing
