"""Methods of a Delta table that change its columns, properties and features."""

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
    """The methods of a Delta table that change metadata and protocol, but no rows."""

    @api_method
    def alter(
        self,  # arguments may be positional, as callers of earlier versions pass them
        changes: Iterable[Change | JsonObject],
        enable: bool = False,
        upgrade_protocol: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> AlterationOutcome:
        """Make changes of columns and of what describes the table in one commit, and return the outcome.

        A change as a JSON object is, for example, `{"change": "rename", "column": "a.b", "name": "c"}`.

        Args:
            changes: The changes, in their order: JSON objects, or values of the classes of
                `deltacli.delta.evolution.requests`.
            enable: True to set `delta.enableTypeWidening` if a change of a type needs it.
            upgrade_protocol: True to add missing features. Clients that do not support them lose access.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome, or the plan with its refusals. `committed_version` is None where nothing was committed.

        Raises:
            UsageError: If columns, types or changes are unknown or invalid.
            Refused: If something depends on a column (`alter.*`), a rule would be broken, or the protocol forbids
                writing. Nothing is changed.
            ConflictLost: If another writer was first, and the change would now do something else.
            OutcomeUnknown: If nobody knows whether the commit was made.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.

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
        """Return what `alter` with the same arguments would do; refusals are in the plan. Raises as it does."""
        change = self.prepare_alter(
            changes=changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            commit_metadata=commit_metadata,
        )
        return change.plan()

    @api_method
    def execute_alter(self, plan: AlterationOutcome) -> AlterationOutcome:
        """Commit a plan of this table.

        If another writer was first, the change is planned again, and committed if it comes to the same.

        Raises:
            ConflictLost: If the new plan is another one.
            DeltacliError: Whatever `alter` raises.
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
        """Return the change of `alter`, not planned yet. Raises UsageError for invalid arguments."""
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
        """Widen the types of columns in one commit, and return the outcome.

        Args:
            changes: Pairs of a column path and its new type.
            enable: True to set `delta.enableTypeWidening` if it is not set.
            upgrade_protocol: True to add missing features. Clients that do not support them lose access.
            check_files: True to check the types in every data file first, and to refuse the change if one
                differs.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome, or the plan with its refusals. `committed_version` is None where nothing was committed.

        Raises:
            UsageError: If columns or types are invalid.
            Refused: If a guard objects (`widen.*`), or the protocol forbids writing. Nothing is changed.
            ConflictLost: If another writer was first, and the change would now do something else.
            OutcomeUnknown: If nobody knows whether the commit was made.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.

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
        """Return what `widen_type` with the same arguments would do; refusals are in the plan. Raises as it does."""
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
        """Commit a plan of this table.

        If another writer was first, the change is planned again, and committed if its effects are the same.

        Raises:
            ConflictLost: If the new plan has other effects.
            DeltacliError: Whatever `widen_type` raises.
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
        """Return the change of `widen_type`, not planned yet. Raises UsageError for invalid arguments.

        Args:
            with_impact: True to count the live files that keep the older types, for people who decide on the plan.
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
        """Commit properties, and return what changed. Nothing is committed where they have these values already.

        `delta.enableRowTracking` takes several commits, which give the rows of all files their ids first. After
        PartlyDone another call continues.

        Args:
            values: Keys of properties with their values.
            force: True to set keys below `delta.` that no known engine recognizes, too.
            upgrade_protocol: True to add the features that the properties require.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome, or the plan. `committed_version` is None where nothing was committed; `versions` are all
            commits.

        Raises:
            UsageError: If values are invalid.
            Refused: If the table cannot have a property, or the protocol forbids writing. Nothing is changed.
            ConflictLost: If another writer was first, and the change would now do something else.
            StorageFailed: If the store fails.
            OutcomeUnknown: If nobody knows whether the commit was made.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.
        """
        change = self.prepare_set_properties(
            values, force=force, upgrade_protocol=upgrade_protocol, commit_metadata=commit_metadata
        )
        return _carry_out_unless_refused(change, dry_run=dry_run)

    @api_method
    def unset_properties(
        self, keys: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA, dry_run: bool = False
    ) -> PropertiesOutcome:
        """Commit the removal of properties. Those that are not set are skipped.

        Args:
            keys: The keys of the properties.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome, or the plan, as `set_properties` does. Raises as it does.
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
        """Return the plan of `set_properties` for `execute_properties`. Raises as it does, also for refusals."""
        return self.set_properties(
            values, force=force, upgrade_protocol=upgrade_protocol, commit_metadata=commit_metadata, dry_run=True
        )

    @api_method
    def plan_unset_properties(
        self, keys: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> PropertiesOutcome:
        """Return the plan of `unset_properties` for `execute_properties`. Raises as it does, also for refusals."""
        return self.unset_properties(keys, commit_metadata=commit_metadata, dry_run=True)

    @api_method
    def execute_properties(self, plan: PropertiesOutcome) -> PropertiesOutcome:
        """Commit a plan of `set_properties` or `unset_properties`.

        If another writer was first, the change is planned again, and committed if the changes are the same.

        Raises:
            ConflictLost: If the new plan has other changes.
            DeltacliError: Whatever `set_properties` raises.
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
        """Return the change of `set_properties`, not planned yet."""
        from deltacli.operations.change.properties_and_features import PropertiesChange, PropertyEdits

        edits = PropertyEdits(
            put=dict(values), force=force, upgrade_protocol=upgrade_protocol, commit_metadata=commit_metadata
        )
        return self._prepare(PropertiesChange(edits))

    def prepare_unset_properties(
        self, keys: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> PreparedChange[PropertiesOutcome, PropertiesOutcome]:
        """Return the change of `unset_properties`, not planned yet."""
        from deltacli.operations.change.properties_and_features import PropertiesChange, PropertyEdits

        edits = PropertyEdits(drop=tuple(keys), commit_metadata=commit_metadata)
        return self._prepare(PropertiesChange(edits))

    @api_method
    def add_features(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA, dry_run: bool = False
    ) -> FeaturesOutcome:
        """Commit a protocol that supports more features, and those that they need. No later commit takes them back.

        Args:
            names: The features.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome, or the plan. `committed_version` is None where nothing was committed. Raises as
            `set_properties` does.
        """
        change = self.prepare_add_features(names, commit_metadata=commit_metadata)
        return _carry_out_unless_refused(change, dry_run=dry_run)

    @api_method
    def plan_add_features(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> FeaturesOutcome:
        """Return what `add_features` with the same arguments would do. Raises as it does, also for refusals."""
        return self.add_features(names, commit_metadata=commit_metadata, dry_run=True)

    @api_method
    def execute_add_features(self, plan: FeaturesOutcome) -> FeaturesOutcome:
        """Commit a plan of `add_features`.

        Raises:
            ConflictLost: If the same call would add other features by now.
            DeltacliError: Whatever `add_features` raises.
        """
        change = self.prepare_add_features(plan.names, commit_metadata=plan.commit_metadata)
        return change.execute(plan)

    def prepare_add_features(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> PreparedChange[FeaturesOutcome, FeaturesOutcome]:
        """Return the change of `add_features`, not planned yet."""
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
        """Drop a feature from the protocol in several commits, after everything that uses it.

        A property is unset; deletion vectors, older types and other names of columns are removed by rewriting their
        files; row ids are removed. A feature that older versions need is dropped behind new checkpoints, which are
        protected from then on.

        Args:
            name: The feature.
            truncate_history: True to delete the versions that need the feature instead of protecting checkpoints.
                They are deleted once they are a day old, and once the queries of `protect_streams` have passed them.
            protect_streams: Patterns of checkpoint directories of Spark queries. Whatever these queries still
                need is kept.
            ignore_streams_older_ms: The age of a checkpoint, in milliseconds, from which its query is not
                protected if it is behind. None: every matching query is protected.
            allow_stream_loss: Queries, by their ids or checkpoint directories, that may become unable to
                continue.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The steps, and the versions that were committed.

        Raises:
            UsageError: If the name is invalid.
            Refused: If the feature cannot be dropped, or something uses it (`features.*`).
            PartlyDone: If an error occurs after the first commit. Another call continues.
            DeltacliError: Whatever `optimize` and `set_properties` raise.

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
        """Return the steps that `drop_features` with the same arguments would take. Raises as it does."""
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
        """Carry out a plan of `drop_features`.

        Raises:
            ConflictLost: If its steps are others by now.
            DeltacliError: Whatever `drop_features` raises.
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
        """Return the change of `drop_features`, not planned yet. Raises UsageError for invalid arguments."""
        from deltacli.operations.change.drop_feature import DropFeature
        from deltacli.operations.streams.protection import ProtectionRequest

        streams = ProtectionRequest(
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
        )
        return self._prepare(DropFeature(name, truncate_history, commit_metadata, streams))


def _carry_out_unless_refused(change: PreparedChange[PO, PO], *, dry_run: bool) -> PO:
    """Carry out a change, or with `dry_run` plan it. A plan with refusals is raised, not returned."""
    from deltacli.api.prepared_change import plan_or_carry_out, require_no_refusal

    outcome = plan_or_carry_out(change, dry_run=dry_run)
    require_no_refusal(outcome)
    return outcome
