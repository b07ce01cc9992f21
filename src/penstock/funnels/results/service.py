"""Reading a funnel's results: what the engine counted, and what history it stands on."""

from penstock.base.ids import WorkspaceId
from penstock.funnels.results.asking import Asker
from penstock.funnels.results.coverage import ReadGaps, coverage_of
from penstock.funnels.results.inquiry import Inquiry
from penstock.funnels.results.schema import PreviewIn, ResultsQuery, ResultsRecord


class ResultsService:
    """Use cases of results. Its methods block; call them from a worker thread."""

    def __init__(self, asker: Asker, read_gaps: ReadGaps) -> None:
        self._asker, self._read_gaps = asker, read_gaps

    def results(self, workspace_id: WorkspaceId, funnel_id: str, query: ResultsQuery) -> ResultsRecord:
        """The report of a saved funnel. Errors as of `Asker.saved`."""
        return self._report(self._asker.saved(workspace_id, funnel_id, query))

    def read_preview(self, workspace_id: WorkspaceId, body: bytes) -> PreviewIn:
        """Malformed when it is not JSON, Invalid with every fault when it breaks rules."""
        return self._asker.read_draft(workspace_id, body)

    def preview(self, workspace_id: WorkspaceId, sent: PreviewIn) -> ResultsRecord:
        """The report of a definition that is not saved. Errors as of `Asker.draft`."""
        return self._report(self._asker.draft(workspace_id, sent))

    def _report(self, inquiry: Inquiry) -> ResultsRecord:
        counted = self._asker.counted(inquiry)
        gaps = self._read_gaps(inquiry.workspace_id, inquiry.question.website_ids)
        open_windows = counted.pop("openWindows")
        coverage = coverage_of(inquiry.question, inquiry.definition, inquiry.facts, gaps, open_windows, fresh=inquiry.fresh)
        return ResultsRecord.model_validate({**inquiry.head, **counted, "coverage": coverage})
