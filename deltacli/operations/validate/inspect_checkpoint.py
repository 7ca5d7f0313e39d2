"""Checking one checkpoint: by itself, and against the replayed state of its version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.progress import Progress, Step
from deltacli.core.typing import ArrowArray, Json
from deltacli.delta.checkpoint import comparison
from deltacli.delta.data_files import without_empty_vectors
from deltacli.delta.log.file_actions import action_schemas, build_action_batch_leniently, extract_num_records_column
from deltacli.delta.log.segment import CheckpointInstance, Place
from deltacli.delta.log.state import OlderMetadata, TableConfiguration, deleted_file_retention_ms
from deltacli.operations.validate.inspect_storage import Foresight
from deltacli.operations.validate.log_reader import FileRows, with_metadata, with_protocol
from deltacli.rules.checkpoints import contents as rules
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.known_files import KnownFiles
from deltacli.rules.framework.views import CheckpointView, ExpectedState
from deltacli.rules.log.commit_lines import LineScanner
from deltacli.storage import ReadStorage
from deltacli.work.checkpoints.inspection import CheckpointAdds, CheckpointReader, InspectedCheckpoint


class CheckpointInspector:
    """Reads a checkpoint once and keeps what the checks need. Without an `expected` state its own files are checked,
    and later commits are applied to it; with statistics only if these are kept.
    """

    def __init__(
        self,
        storage: ReadStorage,
        instance: CheckpointInstance,
        expected: ExpectedState | None,
        scanner: LineScanner,
        now_ms: int,
        sidecar_sizes: Mapping[str, int],
        *,
        keeps_statistics: bool = False,
        progress: Progress,
        foresight: Foresight,
        older_metadata: Callable[[], OlderMetadata] | None = None,
    ) -> None:
        self._keeps_statistics = keeps_statistics
        self._progress = progress
        self._foresight = foresight
        self._step: Step
        self.findings: list[Finding] = []
        self.is_readable = True
        self._instance = instance
        self._expected = expected
        self._now_ms = now_ms
        self._config = TableConfiguration(older_metadata=older_metadata)
        self._clustering: str | None = None
        self._judge: FileRows | None = None
        self._kept: list[pa.RecordBatch] = []
        self._comparable: list[pa.Table] = []
        self._removes: list[pa.RecordBatch] = []
        self._shared_nulls = _SharedNulls()
        self._duplicates = comparison.DuplicateFinder()
        self._remove_keys: list[ArrowArray] = []
        self._reader = CheckpointReader(
            storage, instance, self._take_adds, self._take_removes, scanner, sidecar_sizes, self._advance
        )

    def judge_files_with(self, rows: FileRows) -> None:
        """Pass the adds to the checks of files, because no commit contains them."""
        self._judge = rows

    def run(self) -> CheckpointView:
        """Read everything and return the view; `findings` are those that need the rows."""
        with self._progress.step("reading the checkpoint", unit="rows") as self._step:
            opened = self._reader.read(self._know_config)
        self.is_readable = opened.is_readable
        self.findings.extend(opened.findings)
        rows = sum(opened.rows.values())
        with self._progress.step("looking for duplicates", unit="rows", total=rows) as step:
            for path in self._duplicates.paths():
                message = f"{path} occurs in the checkpoint more than once; each file is one add or one remove"
                self.findings.append(rules.DUPLICATE_KEY.at(self._place(path), message, seen=path))
            step.advance(rows)
        if self._expected is not None and opened.is_readable:
            with self._progress.step("comparing the checkpoint", unit="rows", total=rows) as step:
                self._compare(self._expected)
                step.advance(rows)
        return CheckpointView(
            self._instance,
            self._instance.version,
            opened.small,
            opened.schemas,
            opened.file_sizes,
            opened.rows,
            opened.counts,
            opened.inline_file_actions,
            opened.missing_sidecars,
            self._config,
            self._expected,
            max(file.modified_ms for file in self._instance.files),
            self._now_ms,
            opened.small_is_whole,
            opened.is_readable,
        )

    def _advance(self, rows: int, size_bytes: int) -> None:
        self._step.advance(rows)
        self._foresight.take_rows(rows, size_bytes, is_known=self._expected is not None)

    def known_files(self) -> KnownFiles:
        """Return the files that later commits are applied to."""
        schemas = action_schemas()
        kept = [field for field in schemas.add if self._keeps_statistics or field.name != "stats"]
        schema = pa.schema([*kept, pa.field("num_records", pa.int64())])
        adds = pa.Table.from_batches(self._kept, schema)
        removes = pa.Table.from_batches(self._removes, schemas.remove)
        return KnownFiles.of_checkpoint(adds, removes, self._place().path)

    def _place(self, key: str | None = None) -> Place:
        return Place(f"_delta_log/{self._instance.files[0].name}", None, self._instance.version, key)

    def _know_config(self, opened: InspectedCheckpoint) -> None:
        for kind, action, path in opened.small:
            place = Place(path, None, self._instance.version)
            if kind == "protocol":
                self._config = with_protocol(self._config, action, place, self._instance.version)
            elif kind == "metaData":
                self._config = with_metadata(self._config, action, place, self._instance.version)
            elif kind == "domainMetadata" and action.get("domain") == "delta.clustering" and not action.get("removed"):
                self._clustering = action.get("configuration")

    def _take_adds(self, batch: CheckpointAdds) -> None:
        adds = batch.adds
        self._duplicates.take(adds)
        self._report_parsed(batch)
        if self._expected is not None:
            self._comparable.append(comparison.comparable_adds(adds))
            return
        if self._judge is not None:
            self._judge.show(adds, self._config, batch.path, self._instance.version, self._clustering)
        records = extract_num_records_column(adds.column("stats"))
        if batch.parsed_stats is not None and adds.column("stats").null_count == adds.num_rows:
            records = _parsed_records(batch.parsed_stats, records)
        narrow = adds if self._keeps_statistics else adds.drop_columns(["stats"])
        narrow = without_empty_vectors(narrow).append_column("num_records", records)
        self._kept.append(self._shared_nulls.replace(narrow))

    def _take_removes(self, removes: pa.RecordBatch) -> None:
        self._duplicates.take(removes)
        if self._expected is not None:
            self._remove_keys.append(comparison.keys_of(removes))
        self._removes.append(without_empty_vectors(removes))
        for name in ("stats", "tags"):
            filled = removes.num_rows - removes.column(name).null_count
            if filled:
                message = f"{filled} removes of the checkpoint have {name}, which no reader uses"
                self.findings.append(
                    rules.STATS_IN_CHECKPOINTED_REMOVE.at(self._place(f"remove.{name}"), message, seen=filled)
                )

    def _report_parsed(self, batch: CheckpointAdds) -> None:
        """Report parsed partition values and statistics that differ from their texts."""
        paths = batch.adds.column("path")
        if batch.parsed_partitions is not None:
            names = list(self._config.partition_columns)
            values = batch.adds.column("partitionValues")
            differences = comparison.parsed_partition_differences(values, batch.parsed_partitions, paths, names)
            for difference in differences:
                message = (
                    f"partitionValues_parsed.{difference.field} of {difference.path} differs from its partition value"
                )
                place = self._place(difference.path)
                self.findings.append(
                    rules.PARSED_PARTITION_DIFFERS.at(
                        place, message, seen=difference.seen, expected=difference.expected
                    )
                )
        if batch.parsed_stats is not None:
            stats = batch.adds.column("stats")
            for difference in comparison.parsed_record_differences(stats, batch.parsed_stats, paths):
                message = f"stats_parsed.{difference.field} of {difference.path} differs from its statistics"
                place = self._place(difference.path)
                self.findings.append(
                    rules.PARSED_STATS_DIFFERS.at(place, message, seen=difference.seen, expected=difference.expected)
                )

    def _compare(self, expected: ExpectedState) -> None:
        if expected.whole_adds is None:
            return
        ours = pa.concat_tables(self._comparable) if self._comparable else None
        theirs_parts = [comparison.comparable_adds(batch) for batch in expected.whole_adds()]
        if ours is None and not theirs_parts:
            self._compare_tombstones(expected)
            return
        schema = (ours if ours is not None else theirs_parts[0]).schema
        ours = ours if ours is not None else schema.empty_table()
        theirs = pa.concat_tables(theirs_parts) if theirs_parts else schema.empty_table()
        compared = comparison.compare(ours, theirs, self._config)
        version = self._instance.version
        for path in compared.missing:
            message = f"{path} is live at version {version}, but the checkpoint lacks it: readers lose its rows"
            self.findings.append(rules.MISSING_ADD.at(self._place(path), message, expected=path))
        for path in compared.extra:
            message = f"{path} is not live at version {version}, but the checkpoint has it: readers get deleted rows"
            self.findings.append(rules.EXTRA_ADD.at(self._place(path), message, seen=path))
        for difference in compared.different:
            message = f"{difference.field} of {difference.path} differs from the log"
            place = self._place(difference.path)
            field, seen, stands = difference.field, difference.seen, difference.expected
            self.findings.append(rules.ADD_DIFFERS.at(place, message, seen=seen, expected=stands, field=field))
        self._compare_tombstones(expected)

    def _compare_tombstones(self, expected: ExpectedState) -> None:
        """Report unexpired removes that the checkpoint lacks, at the time of its file, which is the writer's clock."""
        retention = deleted_file_retention_ms(expected.config.properties)
        written = max(file.modified_ms for file in self._instance.files)
        cutoff = min(written, self._now_ms) - retention
        unexpired = list(expected.tombstones(cutoff))
        if not unexpired:
            return
        wanted = build_action_batch_leniently([_without_tags(remove) for remove in unexpired], action_schemas().remove)
        have = pa.chunked_array(self._remove_keys, pa.binary()).combine_chunks()
        keys = comparison.keys_of(wanted)
        lacking = pc.filter(wanted.column("path"), pc.invert(pc.is_in(keys, value_set=have)))
        for path in lacking.to_pylist():
            message = f"the checkpoint lacks the unexpired tombstone of {path}: a vacuum may delete the file too early"
            self.findings.append(rules.MISSING_TOMBSTONE.at(self._place(path), message, expected=path))


class _SharedNulls:
    """Shares memory between columns without values, of which a million rows have several."""

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}  # Any: pyarrow has no types

    def replace(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the same batch with its empty columns replaced."""
        columns = []
        for column in batch.columns:
            if column.null_count < len(column):
                columns.append(column)
                continue
            made = self._made.get(column.type)
            if made is None or len(made) < len(column):
                made = self._made[column.type] = pa.nulls(len(column), column.type)
            columns.append(made.slice(0, len(column)))
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _without_tags(remove: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in remove.items() if name != "tags"}


def _parsed_records(parsed: ArrowArray, records: ArrowArray) -> ArrowArray:
    names = {parsed.type.field(index).name for index in range(parsed.type.num_fields)}
    if "numRecords" not in names:
        return records
    try:
        return pc.cast(pc.struct_field(parsed, ["numRecords"]), pa.int64())
    except MemoryError:
        raise
    except pa.ArrowException:
        return records  # reported by `checkpoint.schema-type`
