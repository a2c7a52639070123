"""How the model cloud says no."""

from __future__ import annotations

__all__ = ["CloudError", "NoSuchInstance"]


class CloudError(Exception):
    """The cloud refused; ``code`` is the error code in AWS' words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class NoSuchInstance(CloudError):
    """InvalidInstanceID.NotFound; terminated instances count as not found once they are gone."""

    def __init__(self, instance_id: str) -> None:
        super().__init__("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
