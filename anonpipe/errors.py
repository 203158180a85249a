"""The errors of anonpipe.

Every message says what was given, what is allowed and what to do, and quotes
no value of the data: messages end up in logs, schedulers and databases.
"""

from __future__ import annotations

from collections.abc import Iterable

# Advice that raises a risk says so. Shares of records that an attacker links, lowest and highest of the tables of
# docs/frontier.md; tests/verify/test_remedies.py holds them against data/frontier.csv.
MASK_LINKS = "0.1 to 0.4 % of the records are linked"
GROUPS_LINK = "groups of k=5 link 11 to 18 % of the records, of k=20 2 to 4 %"
EXPECTED_LINKS = "at k=5 15 to 19 % of the records are linked"
SMALLER_K = f"a smaller k, which protects less ({GROUPS_LINK})"
LOWER_K = f"lower k, which protects less ({GROUPS_LINK})"
SMALLER_K_OF_MASK = "a smaller k, with which rarer categories are released"  # Masks form few groups or none
LOWER_K_OF_MASK = "lower k, with which rarer categories are released"
_MERGED = "small strata join the largest of the same event status and take its value"
LARGER_STRATA = f"set strata.small: merge ({_MERGED}) or drop (their records are left out)"
KEEP_EXTREMES = "extremes: keep (the largest value can then be worked out within 0.1 %)"


def advice_on_k(masks: bool) -> str:
    """The advice to lower k, with what that does for a mask, or for groups."""
    return LOWER_K_OF_MASK if masks else LOWER_K


def printable(text: str) -> str:
    """Text of others, which may hold any character, with control and direction characters written as escapes."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def plural(number: int, what: str) -> str:
    """A number of things, as in `1 file` and `2,000 rows`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def by_column(found: Iterable[tuple[str, str, str]]) -> list[str]:
    """A warning for each cause, with its columns and how much of each; found are column, how much, and cause."""
    causes: dict[str, list[str]] = {}
    for name, much, cause in found:
        causes.setdefault(cause, []).append(f"{name!r} ({much})")
    more = {cause: f" and {len(each) - 10:,} more" * (len(each) > 10) for cause, each in causes.items()}
    return [f"column{'s'[: len(c) > 1]} {', '.join(c[:10])}{more[why]}: {why}" for why, c in causes.items()]


def record_noun(whole_unit: bool) -> str:
    """What a record is called: a row, or a unit whose rows are side by side."""
    return "unit" if whole_unit else "row"


class AnonpipeError(Exception):
    """Base of all errors raised on purpose; `exit_code` is the CLI's answer. Its text can be shown anywhere."""

    exit_code = 1
    # The error of a library that was being handled may quote values of the data. `from None` keeps it from being
    # printed, but stays a context that logging and error services can follow: so none can be read.
    __context__: BaseException | None = None

    def __str__(self) -> str:
        return printable(super().__str__())


class JobError(AnonpipeError):
    """The job is not valid: unknown key, unknown column, impossible value."""

    exit_code = 2


class InputError(AnonpipeError):
    """The input cannot be read or cannot be anonymised as the job asks."""

    exit_code = 2


class InfeasibleError(InputError, ValueError):
    """These records cannot be grouped as asked; a ValueError too, for callers of the functions alone."""


class GateError(AnonpipeError):
    """A gate failed: nothing was released."""

    exit_code = 3


class OutputError(AnonpipeError):
    """The release cannot be written: permissions, space, a foreign folder."""

    exit_code = 4


class EngineError(AnonpipeError):
    """A stage failed on the workers; finished partitions are kept for `--resume`."""

    exit_code = 5


class DamagedError(EngineError):
    """A file of the staging is missing or not what was written: the run must start from the input."""


class BusyError(AnonpipeError):
    """Another process is running the same job on the same staging folder."""

    exit_code = 6
