"""Functions of `pyarrow.compute` under the same names, without importing that module.

Importing it creates documented wrappers for three hundred functions, which takes 30 ms of a command that takes 150 ms.
The functions defined here are called where pyarrow defines them; any other name loads the whole module. If a pyarrow
release defines them elsewhere, all of them come from the module. Functions take arrays, scalars and Python values,
return arrays or scalars, and raise pyarrow's own errors.

Methods of arrays and batches (`cast`, `filter`, `is_valid`) also load the whole module. Call the functions where
startup time matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any  # pyarrow has no types

_FUNCTIONS: Mapping[str, tuple[str, int, str | None]] = {
    "abs": ("abs", 1, None),
    "add": ("add", 2, None),
    "all": ("all", 1, None),
    "and_": ("and", 2, None),
    "and_kleene": ("and_kleene", 2, None),
    "and_not": ("and_not", 2, None),
    "ascii_lower": ("ascii_lower", 1, None),
    "any": ("any", 1, None),
    "ascii_lpad": ("ascii_lpad", 1, "PadOptions"),
    "ascii_rpad": ("ascii_rpad", 1, "PadOptions"),
    "binary_join": ("binary_join", 2, None),
    "binary_join_element_wise": ("binary_join_element_wise", -1, None),
    "binary_length": ("binary_length", 1, None),
    "binary_repeat": ("binary_repeat", 2, None),
    "binary_reverse": ("binary_reverse", 1, None),
    "binary_slice": ("binary_slice", 1, "SliceOptions"),
    "bit_wise_and": ("bit_wise_and", 2, None),
    "bit_wise_not": ("bit_wise_not", 1, None),
    "bit_wise_or": ("bit_wise_or", 2, None),
    "bit_wise_xor": ("bit_wise_xor", 2, None),
    "coalesce": ("coalesce", -1, None),
    "cumulative_max": ("cumulative_max", 1, "CumulativeOptions"),
    "cumulative_sum": ("cumulative_sum", 1, "CumulativeOptions"),
    "dictionary_encode": ("dictionary_encode", 1, "DictionaryEncodeOptions"),
    "divide": ("divide", 2, None),
    "drop_null": ("drop_null", 1, None),
    "ends_with": ("ends_with", 1, "MatchSubstringOptions"),
    "equal": ("equal", 2, None),
    "extract_regex": ("extract_regex", 1, "ExtractRegexOptions"),
    "fill_null": ("coalesce", 2, None),
    "filter": ("filter", 2, "FilterOptions"),
    "floor": ("floor", 1, None),
    "floor_temporal": ("floor_temporal", 1, "RoundTemporalOptions"),
    "greater": ("greater", 2, None),
    "greater_equal": ("greater_equal", 2, None),
    "if_else": ("if_else", 3, None),
    "index_in": ("index_in", 1, "SetLookupOptions"),
    "indices_nonzero": ("indices_nonzero", 1, None),
    "invert": ("invert", 1, None),
    "is_finite": ("is_finite", 1, None),
    "is_in": ("is_in", 1, "SetLookupOptions"),
    "is_nan": ("is_nan", 1, None),
    "is_null": ("is_null", 1, None),
    "is_valid": ("is_valid", 1, None),
    "less": ("less", 2, None),
    "less_equal": ("less_equal", 2, None),
    "list_element": ("list_element", 2, None),
    "list_flatten": ("list_flatten", 1, None),
    "list_parent_indices": ("list_parent_indices", 1, None),
    "list_value_length": ("list_value_length", 1, None),
    "local_timestamp": ("local_timestamp", 1, None),
    "map_lookup": ("map_lookup", 1, "MapLookupOptions"),
    "match_substring": ("match_substring", 1, "MatchSubstringOptions"),
    "match_substring_regex": ("match_substring_regex", 1, "MatchSubstringOptions"),
    "max": ("max", 1, None),
    "max_element_wise": ("max_element_wise", -1, None),
    "min": ("min", 1, None),
    "min_element_wise": ("min_element_wise", -1, None),
    "min_max": ("min_max", 1, None),
    "multiply": ("multiply", 2, None),
    "multiply_checked": ("multiply_checked", 2, None),
    "negate": ("negate", 1, None),
    "not_equal": ("not_equal", 2, None),
    "or_": ("or", 2, None),
    "or_kleene": ("or_kleene", 2, None),
    "replace_substring": ("replace_substring", 1, "ReplaceSubstringOptions"),
    "replace_substring_regex": ("replace_substring_regex", 1, "ReplaceSubstringOptions"),
    "replace_with_mask": ("replace_with_mask", 3, None),
    "round": ("round", 1, "RoundOptions"),
    "run_end_encode": ("run_end_encode", 1, "RunEndEncodeOptions"),
    "scatter": ("scatter", 2, "ScatterOptions"),
    "shift_left": ("shift_left", 2, None),
    "shift_right": ("shift_right", 2, None),
    "sort_indices": ("sort_indices", 1, "SortOptions"),
    "split_pattern": ("split_pattern", 1, "SplitPatternOptions"),
    "starts_with": ("starts_with", 1, "MatchSubstringOptions"),
    "struct_field": ("struct_field", 1, "StructFieldOptions"),
    "subtract": ("subtract", 2, None),
    "sum": ("sum", 1, None),
    "take": ("take", 2, None),
    "unique": ("unique", 1, None),
    "utf8_length": ("utf8_length", 1, None),
    "utf8_lpad": ("utf8_lpad", 1, "PadOptions"),
    "utf8_rpad": ("utf8_rpad", 1, "PadOptions"),
    "utf8_rtrim": ("utf8_rtrim", 1, "TrimOptions"),
    "utf8_slice_codeunits": ("utf8_slice_codeunits", 1, "SliceOptions"),
    "value_counts": ("value_counts", 1, None),
    "xor": ("xor", 2, None),
}
"""Name -> Arrow's function, the number of data arguments (-1: all), and the class of its options."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # an import asks for __path__
        raise AttributeError(name)
    bound = _bound(name)
    globals()[name] = bound
    return bound


def names_of_pyarrow(kept: dict[str, Any]) -> Callable[[str], Any]:
    """Return what finds names of `pyarrow` for a module, which keeps them, once pyarrow is needed."""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        import pyarrow

        found = kept[name] = getattr(pyarrow, name)
        return found

    return find


def cast(values: Any, target: Any, *, safe: bool = True) -> Any:
    """Return the values cast to another type; the same array if it already has that type.

    Raises ArrowInvalid for a value that does not fit. Without `safe`, bytes are converted to text without validation.
    """
    if values.type.equals(target):
        return values
    options = _private("CastOptions")
    if options is None:
        return values.cast(target, safe=safe)
    return _private("call_function")("cast", [values], options.safe(target) if safe else options.unsafe(target))


def index(values: Any, value: Any) -> Any:
    """Return the index of the first occurrence of a value as an Int64Scalar; -1 if it does not occur."""
    import pyarrow

    options = _private("IndexOptions")
    if options is None:
        return values.index(value)
    return _private("call_function")("index", [values], options(pyarrow.scalar(value, values.type)))


def random(length: int, *, initializer: int) -> Any:
    """Return so many random numbers from 0 to below 1, the same ones for the same initializer."""
    options = _private("RandomOptions")
    if options is None:
        import pyarrow.compute

        return pyarrow.compute.random(length, initializer=initializer)
    return _private("call_function")("random", [], options(initializer=initializer), length=length)


def _bound(name: str) -> Any:
    find, row = _private("get_function"), _FUNCTIONS.get(name)
    if find is None or row is None:
        import pyarrow.compute

        return getattr(pyarrow.compute, name)
    function, data, options_name = row
    return _caller(find(function).call, data, _private(options_name) if options_name else None)


def _caller(call: Callable[..., Any], data: int, options: Any) -> Callable[..., Any]:
    if options is None:
        return lambda *arguments: call(arguments)
    defaults = cache(options)

    def with_options(*arguments: Any, **settings: Any) -> Any:
        given = arguments[data:]
        return call(arguments[:data], options(*given, **settings) if given or settings else defaults())

    return with_options


@cache
def _private(name: str) -> Any:
    """Return an attribute of pyarrow's compiled module; None if this release does not have it."""
    try:
        from pyarrow import _compute
    except ImportError:
        return None
    return getattr(_compute, name, None)
