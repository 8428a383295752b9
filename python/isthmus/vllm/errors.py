"""The plug-in's one error; its text is what the caller of vLLM's route reads."""


class TransferError(RuntimeError):
    """A refusal or a failure. `code` is one of those of isthmus.errors, as text.

    The message begins with the code, for vLLM passes on nothing but the text.
    """

    def __init__(self, code: str, message: str):
        super().__init__(f"isthmus: {code}: {message}")
        self.code = code
