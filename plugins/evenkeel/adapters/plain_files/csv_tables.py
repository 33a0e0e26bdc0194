"""Columns of a CSV file as arrays; a bad value is refused with its file and line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from evenkeel.adapters.cluster.json_documents import LARGEST_FIGURE
from evenkeel.model.errors import InputError


class CsvTable:
    """A CSV file, read as text; empty cells are null."""

    def __init__(self, path: Path, required: Iterable[str], optional: Iterable[str]) -> None:
        self.path = path
        names = (*required, *optional)
        self._table = _read(path, names)
        self._check_header(tuple(required), names)
        if self._table.num_rows == 0:
            raise InputError(f"{path} has a header but no rows", "give at least one row")

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def has(self, name: str) -> bool:
        return name in self._table.column_names

    def text(self, name: str) -> pa.StringArray:
        """A column as it is; all null where the file does not have it."""
        if not self.has(name):
            return pa.nulls(len(self), pa.string())
        return self._table[name].combine_chunks()

    def required_text(self, name: str) -> pa.StringArray:
        values = self.text(name)
        if values.null_count:
            self.refuse(pc.is_null(values), f"{name} is empty")
        return values

    def numbers(self, name: str) -> pa.DoubleArray:
        """Finite numbers; null where a cell is empty."""
        values = self._cast(name, pa.float64(), "a number")
        self.refuse(pc.invert(pc.less_equal(pc.abs(values), LARGEST_FIGURE)), f"{name} is not a finite number", values)
        return values

    def figures(self, name: str) -> pa.DoubleArray:
        """Numbers that cannot be below zero."""
        values = self.numbers(name)
        self.refuse(pc.less(values, 0.0), f"{name} is negative", values)
        return values

    def counts(self, name: str) -> pa.Int64Array:
        """Whole numbers that cannot be below zero."""
        values = self._cast(name, pa.int64(), "a whole number")
        self.refuse(pc.less(values, 0), f"{name} is negative", values)
        return values

    def refuse(self, is_wrong: pa.BooleanArray, problem: str, values: pa.Array | None = None) -> None:
        """Refuse the file at the first row that is wrong, if any is."""
        row = pc.index(is_wrong, True).as_py()
        if row >= 0:
            found = "" if values is None else f" ({values[row].as_py()})"
            self.refuse_row(row, f"{problem}{found}")

    def refuse_row(self, row: int, problem: str) -> NoReturn:
        raise InputError(f"{self.path}, line {self._line_of(row)}: {problem}", "correct the file and import it again")

    def _cast(self, name: str, kind: pa.DataType, what: str) -> pa.Array:
        texts = self.text(name)
        try:
            return pc.cast(texts, kind)
        except pa.ArrowInvalid:
            row = next(row for row, text in enumerate(texts) if not _can_cast(text, kind))
            self.refuse_row(row, f"{name} = {texts[row].as_py()!r} is not {what}")

    def _line_of(self, row: int) -> int:
        """The line of a row; only blank lines make the two differ, since cells hold no line breaks."""
        with open(self.path, encoding="utf-8", errors="replace") as file:
            filled = (number for number, line in enumerate(file, start=1) if line.strip("\r\n"))
            return next(number for index, number in enumerate(filled) if index == row + 1)

    def _check_header(self, required: tuple[str, ...], known: tuple[str, ...]) -> None:
        found = self._table.column_names
        for name in found:
            if name not in known:
                raise InputError(f"{self.path}: unknown column {name!r}", f"the columns are {', '.join(known)}")
            if found.count(name) > 1:
                raise InputError(f"{self.path}: column {name!r} appears twice", "keep one of them")
        for name in required:
            if name not in found:
                raise InputError(f"{self.path}: column {name!r} is missing", "add it to the header and to each row")


def _read(path: Path, names: Iterable[str]) -> pa.Table:
    uneven: list[Any] = []

    def note_uneven(row: Any) -> str:
        uneven.append(row)
        return "error"

    try:
        return csv.read_csv(
            path,
            parse_options=csv.ParseOptions(invalid_row_handler=note_uneven),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.string() for name in names}, null_values=[""], strings_can_be_null=True
            ),
        )
    except OSError as error:
        raise InputError(
            f"cannot read {path} ({error.strerror or error})", "check the path and its permissions"
        ) from error
    except pa.ArrowInvalid as error:
        remedy = "correct the file and import it again"
        if uneven:
            row = uneven[0]
            cause = f"{path}: a line has {row.actual_columns} cells, the header {row.expected_columns}: {row.text!r}"
            raise InputError(cause, remedy) from error
        raise InputError(f"{path} is not a CSV file ({error})", remedy) from error


def _can_cast(text: pa.StringScalar, kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
