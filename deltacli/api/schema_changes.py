"""The methods of `Table` that change the schema, the properties and the table features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from deltacli.api.changeable_table import ChangeableTable
from deltacli.core.typing import JsonObject
from deltacli.delta.log.actions import NO_METADATA
from deltacli.table.api_errors import api_method

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PO, PreparedChange
    from deltacli.delta.evolution.requests import Change
    from deltacli.operations.change.alter import AlterationOutcome
    from deltacli.operations.change.drop_feature import FeatureDrop
    from deltacli.operations.change.properties_and_features import FeaturesOutcome, PropertiesOutcome
    from deltacli.operations.change.widen_type import WideningOutcome


class SchemaChangeMethods(ChangeableTable):
    """The methods of `Table` that change the metadata and the protocol."""

    @api_method
    def alter(
        self,  # arguments may be positional, as callers of earlier versions pass them
        changes: Iterable[Change | JsonObject],
        enable: bool = False,
        upgrade_protocol: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> AlterationOutcome:
        """Change columns, comments, constraints and other metadata with one commit, without asking for confirmation.

        Example:

            table.alter([{"change": "rename", "column": "address.zip", "name": "postcode"}])

        Args:
            changes: The changes, in the order in which they are applied: JSON objects, or objects of the classes in
                `deltacli.delta.evolution.requests`.
            enable: Whether to set the property `delta.enableTypeWidening` if a change requires it.
            upgrade_protocol: Whether to add table features that the change requires. Clients without support for
                them can no longer access the table.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The outcome; for a dry run the plan, including its refusals. `committed_version` is None if nothing was
            committed.

        Raises:
            UsageError: If a column, a type or a kind of change is unknown.
            Refused: If a constraint, a generated column or a property depends on a changed column (`alter.*`), or
                the table needs a writer feature that is not supported. Nothing is changed.
            ConflictLost: If another writer has committed in the meantime, and the change would now have other
                effects.
            OutcomeUnknown: If it is unknown whether the commit was created, because the answer of the store was
                lost.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.

        Spec: Column Mapping.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        change = self.prepare_alter(
            changes=changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return plan_or_carry_out(change, dry_run=dry_run)

    @api_method
    def plan_alter(
        self,
        changes: Iterable[Change | JsonObject],
        enable: bool = False,
        upgrade_protocol: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> AlterationOutcome:
        """Return the plan of `alter` without changing anything.

        Takes the same arguments and raises the same errors as `alter`, except that refusals are part of the plan.
        """
        change = self.prepare_alter(
            changes=changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            commit_metadata=commit_metadata,
        )
        return change.plan()

    @api_method
    def execute_alter(self, plan: AlterationOutcome) -> AlterationOutcome:
        """Commit a plan that `plan_alter` returned for this table.

        If another writer has committed in the meantime, the change is planned again. The new plan is committed if
        it has the same effects.

        Raises:
            ConflictLost: If the new plan has other effects.
            DeltacliError: The errors of `alter`.
        """
        from deltacli.operations.change.alter import Alteration

        return self._prepare(Alteration(plan.request)).execute(plan)

    def prepare_alter(
        self,
        changes: Iterable[Change | JsonObject],
        *,
        enable: bool = False,
        upgrade_protocol: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> PreparedChange[AlterationOutcome, AlterationOutcome]:
        """Return `alter` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.change.alter import Alteration, AlterationRequest

        request = AlterationRequest(
            changes=changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return self._prepare(Alteration(request))

    @api_method
    def widen_type(
        self,
        *changes: tuple[str, str],
        enable: bool = False,
        upgrade_protocol: bool = False,
        check_files: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> WideningOutcome:
        """Widen the types of columns with one commit, without asking for confirmation. No data file is rewritten.

        Args:
            changes: Pairs of a column and its new type, such as `("id", "long")`. Nested fields are separated by
                dots.
            enable: Whether to set the property `delta.enableTypeWidening` if necessary.
            upgrade_protocol: Whether to add table features that the change requires. Clients without support for
                them can no longer access the table.
            check_files: Whether to read the footers of all data files, and to refuse the change if a file has
                another type than the schema.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The outcome; for a dry run the plan, including its refusals. `committed_version` is None if nothing was
            committed.

        Raises:
            UsageError: If a column or a type is unknown.
            Refused: If a safety check fails (`widen.*`), or the table needs a writer feature that is not supported.
                Nothing is changed.
            ConflictLost: If another writer has committed in the meantime, and the change would now have other
                effects.
            OutcomeUnknown: If it is unknown whether the commit was created, because the answer of the store was
                lost.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.

        Spec: Type Widening.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        change = self.prepare_widen_type(
            *changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            check_files=check_files,
            commit_metadata=commit_metadata,
        )
        return plan_or_carry_out(change, dry_run=dry_run)

    @api_method
    def plan_widen_type(
        self,
        *changes: tuple[str, str],
        enable: bool = False,
        upgrade_protocol: bool = False,
        check_files: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> WideningOutcome:
        """Return the plan of `widen_type` without changing anything.

        Takes the same arguments and raises the same errors as `widen_type`, except that refusals are part of the
        plan.
        """
        change = self.prepare_widen_type(
            *changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            check_files=check_files,
            commit_metadata=commit_metadata,
        )
        return change.plan()

    @api_method
    def execute_widen_type(self, plan: WideningOutcome) -> WideningOutcome:
        """Commit a plan that `plan_widen_type` returned for this table.

        If another writer has committed in the meantime, the change is planned again. The new plan is committed if
        it has the same effects.

        Raises:
            ConflictLost: If the new plan has other effects.
            DeltacliError: The errors of `widen_type`.
        """
        from deltacli.operations.change.widen_type import Widening

        return self._prepare(Widening(plan.request)).execute(plan)

    def prepare_widen_type(
        self,
        *changes: tuple[str, str],
        enable: bool = False,
        upgrade_protocol: bool = False,
        check_files: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        with_impact: bool = False,
    ) -> PreparedChange[WideningOutcome, WideningOutcome]:
        """Return `widen_type` as a change that can be planned, shown and executed.

        Args:
            with_impact: Whether to count the data files that keep the old types, to show the number to a user.
        """
        from deltacli.operations.change.widen_type import Widening, WidenRequest

        request = WidenRequest(
            changes=changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            check_files=check_files,
            commit_metadata=commit_metadata,
        )
        return self._prepare(Widening(request, with_impact=with_impact))

    @api_method
    def set_properties(
        self,
        values: Mapping[str, str],
        *,
        force: bool = False,
        upgrade_protocol: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> PropertiesOutcome:
        """Set table properties, without asking for confirmation. If all of them already have these values, nothing
        is committed.

        `delta.enableRowTracking` requires several commits: row ids are assigned to the existing files first. After
        PartlyDone, another call continues.

        Args:
            values: The values by property name, such as `{"delta.appendOnly": "true"}`.
            force: Whether to allow unknown properties with the prefix `delta.`.
            upgrade_protocol: Whether to add table features that the properties require.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The outcome; for a dry run the plan. `committed_version` is None if nothing was committed. `versions`
            contains the versions of all commits.

        Raises:
            UsageError: If a value is invalid.
            Refused: If the table does not support a property, or needs a writer feature that is not supported.
                Nothing is changed.
            ConflictLost: If another writer has committed in the meantime, and the change would now have other
                effects.
            StorageFailed: If the store fails.
            OutcomeUnknown: If it is unknown whether the commit was created, because the answer of the store was
                lost.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.
        """
        change = self.prepare_set_properties(
            values, force=force, upgrade_protocol=upgrade_protocol, commit_metadata=commit_metadata
        )
        return _carry_out_unless_refused(change, dry_run=dry_run)

    @api_method
    def unset_properties(
        self, keys: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA, dry_run: bool = False
    ) -> PropertiesOutcome:
        """Remove table properties, without asking for confirmation. Properties that are not set are skipped.

        Args:
            keys: The names of the properties.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The outcome; for a dry run the plan (see `set_properties`).

        Raises:
            DeltacliError: The errors of `set_properties`.
        """
        change = self.prepare_unset_properties(keys, commit_metadata=commit_metadata)
        return _carry_out_unless_refused(change, dry_run=dry_run)

    @api_method
    def plan_set_properties(
        self,
        values: Mapping[str, str],
        *,
        force: bool = False,
        upgrade_protocol: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> PropertiesOutcome:
        """Return the plan of `set_properties` without changing anything, for `execute_properties`.

        Takes the same arguments and raises the same errors as `set_properties`, including refusals.
        """
        return self.set_properties(
            values, force=force, upgrade_protocol=upgrade_protocol, commit_metadata=commit_metadata, dry_run=True
        )

    @api_method
    def plan_unset_properties(
        self, keys: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> PropertiesOutcome:
        """Return the plan of `unset_properties` without changing anything, for `execute_properties`.

        Takes the same arguments and raises the same errors as `unset_properties`, including refusals.
        """
        return self.unset_properties(keys, commit_metadata=commit_metadata, dry_run=True)

    @api_method
    def execute_properties(self, plan: PropertiesOutcome) -> PropertiesOutcome:
        """Commit a plan that `plan_set_properties` or `plan_unset_properties` returned for this table.

        If another writer has committed in the meantime, the change is planned again. The new plan is committed if
        it has the same effects.

        Raises:
            ConflictLost: If the new plan has other effects.
            DeltacliError: The errors of `set_properties`.
        """
        from deltacli.operations.change.properties_and_features import PropertiesChange

        return self._prepare(PropertiesChange(plan.edits)).execute(plan)

    def prepare_set_properties(
        self,
        values: Mapping[str, str],
        *,
        force: bool = False,
        upgrade_protocol: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> PreparedChange[PropertiesOutcome, PropertiesOutcome]:
        """Return `set_properties` as a change that can be planned, shown and executed."""
        from deltacli.operations.change.properties_and_features import PropertiesChange, PropertyEdits

        edits = PropertyEdits(
            put=dict(values), force=force, upgrade_protocol=upgrade_protocol, commit_metadata=commit_metadata
        )
        return self._prepare(PropertiesChange(edits))

    def prepare_unset_properties(
        self, keys: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> PreparedChange[PropertiesOutcome, PropertiesOutcome]:
        """Return `unset_properties` as a change that can be planned, shown and executed."""
        from deltacli.operations.change.properties_and_features import PropertiesChange, PropertyEdits

        edits = PropertyEdits(drop=tuple(keys), commit_metadata=commit_metadata)
        return self._prepare(PropertiesChange(edits))

    @api_method
    def add_features(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA, dry_run: bool = False
    ) -> FeaturesOutcome:
        """Add table features to the protocol, together with the features that they require. A later `restore` does
        not remove them.

        Args:
            names: The names of the features, such as `deletionVectors`.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The outcome; for a dry run the plan. `committed_version` is None if nothing was committed.

        Raises:
            DeltacliError: The errors of `set_properties`.
        """
        change = self.prepare_add_features(names, commit_metadata=commit_metadata)
        return _carry_out_unless_refused(change, dry_run=dry_run)

    @api_method
    def plan_add_features(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> FeaturesOutcome:
        """Return the plan of `add_features` without changing anything.

        Takes the same arguments and raises the same errors as `add_features`, including refusals.
        """
        return self.add_features(names, commit_metadata=commit_metadata, dry_run=True)

    @api_method
    def execute_add_features(self, plan: FeaturesOutcome) -> FeaturesOutcome:
        """Commit a plan that `plan_add_features` returned for this table.

        Raises:
            ConflictLost: If other features would be added now, because another writer has changed the protocol.
            DeltacliError: The errors of `add_features`.
        """
        change = self.prepare_add_features(plan.names, commit_metadata=plan.commit_metadata)
        return change.execute(plan)

    def prepare_add_features(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> PreparedChange[FeaturesOutcome, FeaturesOutcome]:
        """Return `add_features` as a change that can be planned, shown and executed."""
        from deltacli.operations.change.properties_and_features import FeaturesAddition

        return self._prepare(FeaturesAddition(names, commit_metadata))

    @api_method
    def drop_features(
        self,
        name: str,
        *,
        truncate_history: bool = False,
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> FeatureDrop:
        """Remove a table feature from the protocol, after removing everything that uses it. This takes several
        commits.

        Depending on the feature, its property is unset, data files are rewritten (to remove deletion vectors, old
        types or mapped column names), or row ids are removed. If older versions need the feature to be read,
        checkpoints are written before it is removed, and the feature `checkpointProtection` is added, so that other
        writers keep them.

        Args:
            name: The name of the feature, such as `deletionVectors`.
            truncate_history: Whether to delete the versions that need the feature, instead of protecting
                checkpoints. They are deleted when they are a day old, and the queries of `protect_streams` have
                read them.
            protect_streams: Glob patterns of the checkpoint directories of Spark streaming queries. The files and
                commits that these queries still have to read are kept.
            ignore_streams_older_ms: A query is not protected if it is behind, and its checkpoint has not changed
                for this time in milliseconds. None protects all matching queries.
            allow_stream_loss: The ids or checkpoint directories of queries that may fail afterwards.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The steps, and the versions of the commits.

        Raises:
            UsageError: If the feature is unknown.
            Refused: If the feature cannot be removed, or is still in use (`features.*`).
            PartlyDone: If an error occurs after the first commit. Another call continues.
            DeltacliError: The errors of `optimize` and `set_properties`.

        Spec: Checkpoint Protection.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        change = self.prepare_drop_features(
            name,
            truncate_history=truncate_history,
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
            commit_metadata=commit_metadata,
        )
        return plan_or_carry_out(change, dry_run=dry_run)

    @api_method
    def plan_drop_features(
        self,
        name: str,
        *,
        truncate_history: bool = False,
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> FeatureDrop:
        """Return the plan of `drop_features` without changing anything.

        Takes the same arguments and raises the same errors as `drop_features`.
        """
        return self.drop_features(
            name,
            truncate_history=truncate_history,
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
            commit_metadata=commit_metadata,
            dry_run=True,
        )

    @api_method
    def execute_drop_features(self, plan: FeatureDrop) -> FeatureDrop:
        """Execute a plan that `plan_drop_features` returned for this table.

        Raises:
            ConflictLost: If other steps are necessary now, because another writer has committed.
            DeltacliError: The errors of `drop_features`.
        """
        from deltacli.operations.change.drop_feature import DropFeature

        change = DropFeature(plan.name, plan.truncates, plan.commit_metadata, plan.streams)
        return self._prepare(change).execute(plan)

    def prepare_drop_features(
        self,
        name: str,
        *,
        truncate_history: bool = False,
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> PreparedChange[FeatureDrop, FeatureDrop]:
        """Return `drop_features` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.change.drop_feature import DropFeature
        from deltacli.operations.streams.protection import ProtectionRequest

        streams = ProtectionRequest(
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
        )
        return self._prepare(DropFeature(name, truncate_history, commit_metadata, streams))


def _carry_out_unless_refused(change: PreparedChange[PO, PO], *, dry_run: bool) -> PO:
    """Execute a change, or plan it for a dry run. Raises Refused if the plan of a dry run has a refusal."""
    from deltacli.api.prepared_change import plan_or_carry_out, require_no_refusal

    outcome = plan_or_carry_out(change, dry_run=dry_run)
    require_no_refusal(outcome)
    return outcome
