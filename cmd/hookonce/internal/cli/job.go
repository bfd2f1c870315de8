package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/shown"
)

// runJob runs a job, in the gateway if there is one, and shows its progress on a terminal. When ctx ends, the job is
// cancelled.
func (p *program) runJob(ctx context.Context, api *api, q *hookadmin.JobRequest, b *bulk) (*hookadmin.Job, error) {
	show, end := p.jobBar()
	defer end()
	return api.RunJob(ctx, b.requestID, q, show)
}

// jobBar returns functions that show the progress of a job on a terminal, and that remove it.
func (p *program) jobBar() (show func(*hookadmin.Job), end func()) {
	var bar *progressbar.ProgressBar
	show = func(job *hookadmin.Job) {
		width, isTerminal := terminalWidth(p.stderr)
		if !isTerminal {
			return
		}
		if bar == nil {
			fmt.Fprintf(p.stderr, "%s runs.\nCtrl-C cancels it; if this command is killed, a gateway goes on.\n", shown.Escape(job.ID))
			bar = newBar(p.stderr, job, min(width-40, 40))
		}
		_ = bar.Set64(min(job.Done+job.Skipped+job.Failed, max(job.Count, 1))) // a bar that fails stops nothing
	}
	return show, func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
}

func newBar(w io.Writer, job *hookadmin.Job, width int) *progressbar.ProgressBar {
	return progressbar.NewOptions64(max(job.Count, 1),
		progressbar.OptionSetWriter(w), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(max(width, 10)), progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(true))
}
