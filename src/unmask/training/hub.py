"""A model folder on the Hugging Face hub: what cannot work is refused before a run, and an upload that fails keeps the model."""

from __future__ import annotations

from pathlib import Path

from unmask.errors import InputError, UnmaskError

OWN = "training/*"
"""Files of the run itself: checkpoints, log and settings; they stay here."""


def refuse_unpushable(name: str) -> None:
    """Raise InputError if nothing can be pushed to `name`: no library, no such name, offline, or no token."""
    try:
        from huggingface_hub import constants, get_token
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
    except ImportError:
        raise InputError(f"push_to {name!r} needs huggingface_hub: pip install huggingface_hub, or leave it out") from None
    try:
        validate_repo_id(name)
        owner, _, rest = name.partition("/")
        if not (owner and rest):
            raise HFValidationError
    except HFValidationError:
        wanted = "give OWNER/NAME of letters, digits, '-', '_' and '.'"
        raise InputError(f"push_to {name!r} is not a name on the hub: {wanted}") from None
    if constants.HF_HUB_OFFLINE:
        raise InputError(f"push_to {name!r} needs the network, and HF_HUB_OFFLINE forbids it: unset it, or leave out --push-to")
    if get_token() is None:
        raise InputError(f"push_to {name!r} needs a token of the hub: run `hf auth login`, or set HF_TOKEN")


def push(folder: Path, name: str, private: bool) -> None:
    """Upload the model folder as `name`, which is made if it does not exist; raises UnmaskError if the hub cannot be reached."""
    from huggingface_hub import HfApi

    hub = HfApi()
    try:
        hub.create_repo(name, private=private or None, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=folder, ignore_patterns=[OWN], commit_message="Model of unmask train")
    except Exception as error:  # of the library, of its HTTP client, of the system
        said = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        again = f'hf upload {name} {folder} . --exclude "{OWN}"'
        raise UnmaskError(f"{name} was not pushed ({said}): the model is whole in {str(folder)!r}, try `{again}`") from None
