"""What a script says of a model: which checkpoint, what loads and wraps it, what is done to it."""

import ast
import itertools

from memlint.api.knowledge.families import Family, family
from memlint.engine.answers import agreed, any_of
from memlint.engine.modes import module_root
from memlint.engine.values import Absent, Object, Unknown, Value, constant_text, options
from memlint.flow.evaluated import query
from memlint.script.call_settings import UNSURE, Setting, python_value
from memlint.script.called import Call, Called
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple

_PEFT = ("get_peft_model", "PeftModel", "PeftMixedModel", "AutoPeftModel")
_KBIT = ("prepare_model_for_kbit_training", "prepare_model_for_int8_training")


class ModelFacts(NamedTuple):
    """What the script says of one model.

    name: the checkpoint, where it is a string constant; UNSURE otherwise.
    load: the call that loaded it; None where it was given as a string, or is unknown.
    by_name: it was handed over as a string, so that the trainer loads it.
    peft, kbit, quantized: None where only some path makes it so or nobody can tell.
    objects: the objects that it is or wraps.
    loads: the calls of which one loaded it, where several paths do so; one where all agree.
    """

    name: object
    load: Call | None
    by_name: bool
    peft: bool | None
    kbit: bool | None
    quantized: bool | None
    objects: tuple[Object, ...]
    loads: tuple[Call, ...] = ()

    @property
    def loader(self) -> str:
        """Name of the class that loads it (``AutoModelForCausalLM``), or the empty string."""
        return _loader(self.load) if self.load is not None else ""

    @property
    def is_toy(self) -> bool:
        """True if it is a checkpoint made for tests: a few megabytes, whatever is done to it."""
        return self.family.has("is_toy")

    @property
    def checkpoint(self) -> str:
        """Its checkpoint in lower case; empty where that is not known."""
        return self.name.lower() if isinstance(self.name, str) else ""

    @property
    def family(self) -> Family:
        """What its checkpoint's name says."""
        return family(self.checkpoint)

    @property
    def billions(self) -> float | None:
        """Billions of parameters, by the checkpoint's name; None where it does not say them."""
        from memlint.api.knowledge.sizes import billions

        return billions(self.checkpoint) if self.checkpoint else None

    @property
    def words(self) -> int | None:
        """Words in its vocabulary, by the checkpoint's name; None where it does not say them."""
        from memlint.api.knowledge.sizes import words

        return words(self.checkpoint) if self.checkpoint else None

    @property
    def is_decoder(self) -> bool:
        """True if its checkpoint, or the class that loads it, is of a family of decoders that is
        known: ``GPT2ForSequenceClassification``."""
        by_class = bool(self.loads) and all(map(_is_of_decoder, self.loads))
        return by_class or self.family.has("has_sdpa")

    @property
    def keeps_documents_apart(self) -> bool:
        """True if its attention can definitely keep the documents of a row apart. One that adds a
        bias for positions to the scores (BLOOM) cannot."""
        return self.is_decoder or self.family.has("is_gemma")

    @property
    def loads_language_model(self) -> bool:
        """True if the calls that load it are in sight, and all load a decoder's language model."""
        return bool(self.loads) and all(map(is_language_model, self.loads))

    @property
    def is_stack_of_layers(self) -> bool:
        """True if it certainly is a decoder, or an encoder and a decoder: by the calls that load it
        or, whatever head it has, by its checkpoint."""
        return self.loads_language_model or (bool(self.loads) and self.is_decoder)

    @property
    def is_encoder(self) -> bool:
        """True if the calls that load it are in sight, and all load an encoder with a head."""
        return bool(self.loads) and all(map(is_encoder, self.loads))

    @property
    def can_checkpoint(self) -> bool:
        """True if its class, where transformers has it, certainly can checkpoint its layers."""
        by_name = self.by_name or not self.is_encoder or self.is_stack_of_layers
        return by_name or self.family.has("checkpoints")

    @property
    def causal_lm(self) -> bool | None:
        """True if it is a causal language model; None where the loader does not say."""
        answers = {_is_causal_lm(load) for load in self.loads}
        return answers.pop() if len(answers) == 1 else None

    @property
    def computes_causal_loss(self) -> bool:
        """True if it computes the loss of a causal language model when it gets labels: decoders
        that see images do as well."""
        seeing = bool(self.loads) and all(_SEEING.match(_loader(load)) for load in self.loads)
        return self.causal_lm is True or seeing


_ENCODERS = lazy_pattern(
    r"For(SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice|MaskedLM)\b"
)
LANGUAGE_MODELS = (
    *("CausalLM", "LMHead", "Seq2SeqLM", "ConditionalGeneration", "DoubleHeads"),
    *("ImageTextToText", "Vision2Seq", "SpeechSeq2Seq"),
)
# Decoders that see images, by their classes.
_SEEING = lazy_pattern(
    r"(Qwen[\d_]+VL|Qwen3_5|Llava|VipLlava|PaliGemma|Idefics|SmolVLM|Gemma3|Mistral3|Mllama"
    r"|Llama4|InternVL|Aria|Glm4|GotOcr)\w*ForConditionalGeneration"
)


def is_language_model(load: Call) -> bool:
    """True if a ``from_pretrained`` loads a decoder or encoder-decoder with logits over words, of
    which one that learns to fill in masks is a diffusion model."""
    if any(part in load.name for part in LANGUAGE_MODELS):
        return True
    name = _checkpoint(load) if "MaskedLM" in load.name else None
    return isinstance(name, str) and family(name.lower()).has("has_sdpa")


def is_encoder(load: Call) -> bool:
    """True if a call loads an encoder of text with a head for classes, spans or masked words."""
    return _ENCODERS.search(load.name) is not None


def _is_of_decoder(load: Call) -> bool:
    """True if a class of transformers that loads a model is one of a family of decoders."""
    is_class = load.name.startswith("transformers.") and _loader(load)[:1].isupper()
    return is_class and family(_loader(load).lower()).has("has_sdpa")


def _loader(load: Call) -> str:
    parts = load.name.split(".")
    return parts[-2] if len(parts) > 1 and parts[-1][:1].islower() else parts[-1]


def _is_causal_lm(load: Call) -> bool | None:
    loader, name = _loader(load), _checkpoint(load)
    if loader == "AutoModelWithLMHead" and isinstance(name, str):
        # A head by the checkpoint: that of a decoder, of masked words, of an encoder-decoder.
        return family(name.lower()).has("has_sdpa") or None
    if "CausalLM" in loader or loader.endswith("LMHeadModel"):
        return True
    return False if "For" in loader or loader == "AutoModel" else None


def model_facts(script: Called, value: Value) -> ModelFacts:
    """What the script says of the model that ``value`` is."""
    found = [one for one in options(value) if not isinstance(one, Absent)]
    by_name = constant_text(found[0]) if len(found) == 1 else None
    if by_name is not None:
        return ModelFacts(by_name, None, True, False, False, False, ())
    chains = [chain_of(one) for one in found if isinstance(one, Object)]
    objects = tuple(dict.fromkeys(itertools.chain.from_iterable(chains)))
    if not objects or any(isinstance(one, Unknown) for one in found):
        return ModelFacts(UNSURE, None, False, None, None, None, objects)
    loads = _loads(script, chains)
    load = loads[0] if len(loads) == 1 else None
    return ModelFacts(
        name=_checkpoint(load),
        load=load,
        by_name=False,
        peft=agreed(_wrapped(chain, _PEFT) for chain in chains),
        kbit=agreed(_wrapped(chain, _KBIT) for chain in chains),
        # What an unknown function loads it may quantize.
        quantized=is_quantized(load) if load is not None and objects[-1].type else None,
        objects=objects,
        loads=loads,
    )


def _loads(script: Called, chains: list[list[Object]]) -> tuple[Call, ...]:
    """Return the possible loads of the innermost model; empty if one is unknown. A helper that is
    given a class may load others at the same place."""
    innermost = {(id(one.node), one.type): one for *_, one in chains}
    calls = [_load_of(script, one) for one in innermost.values()]
    known = tuple(call for call in calls if call is not None)
    return known if len(known) == len(calls) else ()


def _load_of(script: Called, model: Object) -> Call | None:
    """The call that loads a model, of its evaluations those alone that load the same class."""
    call, made = script.call_anywhere(model.node), model.made_by
    same = [one for one in call.invocations if made and one.name == made.name] if call else []
    return call if call is None or len(same) in (0, len(call.invocations)) else Call(script, same)


def chain_of(made: Object) -> list[Object]:
    """An object and what it wraps or copies, innermost last."""
    chain = [made]
    while chain[-1].base is not None:
        chain.append(chain[-1].base)
    return chain


def _checkpoint(load: Call | None) -> object:
    if load is None:
        return UNSURE
    binding = load.setting("pretrained_model_name_or_path")
    if binding.given:
        return binding.value
    value = python_value(load.argument(0))
    return value if isinstance(value, str) else UNSURE


def is_quantized(load: Call) -> bool | None:
    """True if a ``from_pretrained`` call loads quantized weights."""
    settings = map(load.setting, ("quantization_config", "load_in_4bit", "load_in_8bit"))
    return any_of(_is_given(setting) for setting in settings)


def _is_given(setting: Setting) -> bool | None:
    """True if an option is given something that is neither None nor False."""
    if setting.given is False:
        return False
    if setting.given is None or setting.value is UNSURE:
        return None
    return _is_something(setting.value)


def _is_something(value: object) -> bool | None:
    """True if an option that takes an object or None is given one; None where a call decides."""
    if isinstance(value, Object) and value.type is None:
        return None
    return value is not None and value is not False


def _wrapped(chain: list[Object], names: tuple[str, ...]) -> bool | None:
    """True if what begins with one of ``names`` is in the chain (``PeftModelForCausalLM``).

    None where what an unknown call made ends it.
    """
    for one in chain:
        if one.made_by is not None:
            parts = one.made_by.name.split(".")
            if names is _PEFT and parts[-1] in ("merge_and_unload", "unload"):
                return False
            if any(part.startswith(names) for part in parts):
                return True
    return False if chain[-1].type is not None else None


def is_adapter(made: Object) -> bool:
    """True if it is what PEFT made of a model."""
    return _wrapped([made], _PEFT) is True


# -- models that a script loads --------------------------------------------------------------------

_CLASSIFIERS = (
    *("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice"),
)
_NOT_MODELS = ("Tokenizer", "Processor", "Config", "FeatureExtractor")


def copy_of(script: Called, value: Value) -> Call | None:
    """The call that copies one model to another (``deepcopy``), where a model is a copy."""
    for one in options(value):
        root = module_root(one)
        if isinstance(root, Object) and root.base is not None and root.made_by is not None:
            return script.call_at(root.made_by.node)
    return None


@query
def model_loads_of(script: Called) -> tuple[Call, ...]:
    """Calls that load weights: ``from_pretrained`` of model classes of transformers."""
    return loads_among(script.method_calls("from_pretrained"))


def loads_among(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """Those of calls of ``from_pretrained`` that load weights."""
    return tuple(
        call
        for call in calls
        if call.name.startswith("transformers.")
        and any(part in call.name for part in ("Model", "For", "LMHead"))
        and not any(part in call.name for part in _NOT_MODELS)
    )


def calls_on(script: Called, facts: ModelFacts, *methods: str) -> tuple[Call, ...]:
    """Calls of ``methods`` on a model or on what it wraps, in any file of the project."""
    calls = script.method_calls_anywhere(*methods)
    return tuple(call for call in calls if is_about(script, call, facts))


def is_about(script: Called, call: Call, facts: ModelFacts) -> bool | None:
    """True if a method is called on the model or what it wraps; None if that is unknown."""
    if call.receiver is None:
        return None
    found = [one for one in options(call.receiver) if isinstance(one, Object)]
    if not found:
        return None
    objects = set(map(id, facts.objects))
    return any(id(inner) in objects for one in found for inner in chain_of(one))


@query
def loads_classifier(script: Called) -> bool:
    """True if a model with labels instead of a vocabulary is loaded."""
    return any(part in load.name for load in model_loads_of(script) for part in _CLASSIFIERS)


@query
def loads_language_models_only(script: Called) -> bool:
    """True if all models that the script loads are language models, and it defines none."""
    loads = model_loads_of(script)
    if not loads or not all(map(is_language_model, loads)):
        return False
    return not any(
        "Module" in base.attr if isinstance(base, ast.Attribute) else "Module" in base.id
        for one in script.classes
        for base in one.bases
        if isinstance(base, ast.Attribute | ast.Name)
    )
