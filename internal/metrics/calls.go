package metrics

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func (s *store) Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	return ask(ctx, s, "claim", s.Store.Claim, p)
}

func (s *store) Prove(ctx context.Context) (result []string, err error) {
	defer s.observe("prove", time.Now(), &err)
	return s.Store.Prove(ctx)
}

func (s *store) Server(ctx context.Context) (result string, err error) {
	defer s.observe("server", time.Now(), &err)
	return s.Store.Server(ctx)
}

func (s *store) Reopen(ctx context.Context, p *driver.ReopenParams) (reopened, held []driver.Key, err error) {
	defer s.observe("reopen", time.Now(), &err)
	return s.Store.Reopen(ctx, p)
}

func (s *store) CountDeliveries(ctx context.Context, p *driver.CountDeliveriesParams) error {
	return do(ctx, s, "count_deliveries", s.Store.CountDeliveries, p)
}

func (s *store) Quarantine(ctx context.Context, p *driver.QuarantineParams) error {
	return do(ctx, s, "quarantine", s.Store.Quarantine, p)
}

func (s *store) SettleQuarantined(ctx context.Context, p *driver.SettleQuarantinedParams) (bool, error) {
	return ask(ctx, s, "settle_quarantined", s.Store.SettleQuarantined, p)
}

func (s *store) Lease(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	return ask(ctx, s, "lease", s.Store.Lease, p)
}

func (s *store) Complete(ctx context.Context, p *driver.CompleteParams) ([]bool, error) {
	return ask(ctx, s, "complete", s.Store.Complete, p)
}

func (s *store) Release(ctx context.Context, p *driver.ReleaseParams) error {
	return do(ctx, s, "release", s.Store.Release, p)
}

func (s *store) EventParts(ctx context.Context, keys []driver.Key) ([]driver.EventParts, error) {
	return ask(ctx, s, "event_parts", s.Store.EventParts, keys)
}

func (s *store) Replay(ctx context.Context, p *driver.ReplayParams) (*driver.Replayed, error) {
	return ask(ctx, s, "replay", s.Store.Replay, p)
}

func (s *store) ReplayDead(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	return ask(ctx, s, "replay_dead", s.Store.ReplayDead, p)
}

func (s *store) Discard(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	return ask(ctx, s, "discard", s.Store.Discard, p)
}

func (s *store) RetryMessage(ctx context.Context, p *driver.RetryMessageParams) error {
	return do(ctx, s, "retry_message", s.Store.RetryMessage, p)
}

func (s *store) DeadLetters(ctx context.Context, f *driver.MessageFilter) (*driver.DeadLetterPage, error) {
	return ask(ctx, s, "dead_letters", s.Store.DeadLetters, f)
}

func (s *store) Messages(ctx context.Context, f *driver.MessageFilter) (*driver.MessagePage, error) {
	return ask(ctx, s, "messages", s.Store.Messages, f)
}

func (s *store) Quarantined(ctx context.Context, f *driver.QuarantineFilter) (*driver.QuarantinePage, error) {
	return ask(ctx, s, "quarantined", s.Store.Quarantined, f)
}

func (s *store) QuarantinedRequest(ctx context.Context, key driver.Key) (*driver.QuarantinedRequest, error) {
	return ask(ctx, s, "quarantined_request", s.Store.QuarantinedRequest, key)
}

func (s *store) Stats(ctx context.Context) (result *driver.Stats, err error) {
	defer s.observe("stats", time.Now(), &err)
	return s.Store.Stats(ctx)
}

func (s *store) Events(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	return ask(ctx, s, "events", s.Store.Events, f)
}

func (s *store) Redact(ctx context.Context, p *driver.RedactParams) (*driver.Redacted, error) {
	return ask(ctx, s, "redact", s.Store.Redact, p)
}

func (s *store) Event(ctx context.Context, source, eventID string) (result *driver.EventDetail, err error) {
	defer s.observe("event", time.Now(), &err)
	return s.Store.Event(ctx, source, eventID)
}

func (s *store) DueDestinations(ctx context.Context, destinations []string) ([]string, error) {
	return ask(ctx, s, "due_destinations", s.Store.DueDestinations, destinations)
}

func (s *store) DueSources(ctx context.Context, sources []string) ([]driver.DueSource, error) {
	return ask(ctx, s, "due_sources", s.Store.DueSources, sources)
}

func (s *store) Reserve(ctx context.Context, p *driver.ReserveParams) ([]driver.TakenEvent, error) {
	return ask(ctx, s, "reserve", s.Store.Reserve, p)
}

func (s *store) RecordReserved(ctx context.Context, p *driver.FinishParams) error {
	return do(ctx, s, "record_reserved", s.Store.RecordReserved, p)
}

func (s *store) SweepRuns(ctx context.Context, p *driver.SweepRunsParams) ([]driver.LostRun, error) {
	return ask(ctx, s, "sweep_runs", s.Store.SweepRuns, p)
}

func (s *store) Admit(ctx context.Context, p *driver.AdmitParams) ([]driver.Admission, error) {
	return ask(ctx, s, "admit", s.Store.Admit, p)
}

func (s *store) SettleLines(ctx context.Context, ids []string) error {
	return do(ctx, s, "settle_lines", s.Store.SettleLines, ids)
}

func (s *store) SweepLines(ctx context.Context, after driver.Key, limit int) (seen int, last driver.Key, err error) {
	defer s.observe("sweep_lines", time.Now(), &err)
	return s.Store.SweepLines(ctx, after, limit)
}

func (s *store) WaitingBehind(ctx context.Context, messageID string) (int, error) {
	return ask(ctx, s, "waiting_behind", s.Store.WaitingBehind, messageID)
}

func (s *store) Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	return ask(ctx, s, "versions", s.Store.Versions, objects)
}

func (s *store) CountInlineFailure(ctx context.Context, p *driver.InlineFailure) (*driver.InlineFailed, error) {
	return ask(ctx, s, "count_inline_failure", s.Store.CountInlineFailure, p)
}

func (s *store) FileInlineFailures(ctx context.Context, p *driver.FileFailuresParams) ([]driver.FiledFailure, error) {
	return ask(ctx, s, "file_inline_failures", s.Store.FileInlineFailures, p)
}

func (s *store) Arm(ctx context.Context, p *driver.ArmParams) (*driver.SourceSecrets, error) {
	return ask(ctx, s, "arm", s.Store.Arm, p)
}

func (s *store) LearnSecret(ctx context.Context, p *driver.LearnParams) (bool, error) {
	return ask(ctx, s, "learn_secret", s.Store.LearnSecret, p)
}

func (s *store) LearnedSecrets(ctx context.Context, sources []string) ([]driver.SourceSecrets, error) {
	return ask(ctx, s, "learned_secrets", s.Store.LearnedSecrets, sources)
}

func (s *store) RegisterWindows(ctx context.Context, p *driver.PruneParams) error {
	return do(ctx, s, "register_windows", s.Store.RegisterWindows, p)
}

func (s *store) Prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	return ask(ctx, s, "prune", s.Store.Prune, p)
}

func (s *store) PullBack(ctx context.Context, p *driver.PullBackParams) (events, messages int, err error) {
	defer s.observe("pull_back", time.Now(), &err)
	return s.Store.PullBack(ctx, p)
}

func (s *store) Weaknesses(ctx context.Context) (result []driver.Weakness, err error) {
	defer s.observe("weaknesses", time.Now(), &err)
	return s.Store.Weaknesses(ctx)
}

func (s *store) ForeignTriggers(ctx context.Context) (result []string, err error) {
	defer s.observe("foreign_triggers", time.Now(), &err)
	return s.Store.ForeignTriggers(ctx)
}

func (s *store) Confirm(ctx context.Context) (err error) {
	defer s.observe("confirm", time.Now(), &err)
	return s.Store.Confirm(ctx)
}

func (s *store) Now(ctx context.Context) (result time.Time, err error) {
	defer s.observe("now", time.Now(), &err)
	return s.Store.Now(ctx)
}

func (s *store) Backlog(ctx context.Context, p *driver.BacklogParams) (*driver.Backlog, error) {
	return ask(ctx, s, "backlog", s.Store.Backlog, p)
}

func (s *store) AddFigures(ctx context.Context, p *driver.AddFiguresParams) error {
	return do(ctx, s, "add_figures", s.Store.AddFigures, p)
}

func (s *store) Series(ctx context.Context, f *driver.SeriesFilter) ([]driver.Point, error) {
	return ask(ctx, s, "series", s.Store.Series, f)
}

func (s *store) AddRefused(ctx context.Context, p *driver.AddRefusedParams) error {
	return do(ctx, s, "add_refused", s.Store.AddRefused, p)
}

func (s *store) AddJob(ctx context.Context, p *driver.AddJobParams) (*driver.Job, error) {
	return ask(ctx, s, "add_job", s.Store.AddJob, p)
}

func (s *store) Job(ctx context.Context, id string) (*driver.Job, error) {
	return ask(ctx, s, "job", s.Store.Job, id)
}

func (s *store) Jobs(ctx context.Context, f *driver.JobFilter) (*driver.JobPage, error) {
	return ask(ctx, s, "jobs", s.Store.Jobs, f)
}

func (s *store) StartJob(ctx context.Context, p *driver.ChangeJobParams) (*driver.Job, error) {
	return ask(ctx, s, "start_job", s.Store.StartJob, p)
}

func (s *store) CancelJob(ctx context.Context, p *driver.ChangeJobParams) (*driver.Job, error) {
	return ask(ctx, s, "cancel_job", s.Store.CancelJob, p)
}

func (s *store) TakeJob(ctx context.Context, p *driver.TakeJobParams) (*driver.Job, error) {
	return ask(ctx, s, "take_job", s.Store.TakeJob, p)
}

func (s *store) Undiscard(ctx context.Context, p *driver.UndiscardParams) (*driver.Undiscarded, error) {
	return ask(ctx, s, "undiscard", s.Store.Undiscard, p)
}

func (s *store) Discards(ctx context.Context, operation string) (*driver.Discarded, error) {
	return ask(ctx, s, "discards", s.Store.Discards, operation)
}

func (s *store) StepJob(ctx context.Context, p *driver.JobStep) (held bool, done []bool, err error) {
	defer s.observe("step_job", time.Now(), &err)
	return s.Store.StepJob(ctx, p)
}

func (s *store) ErrorGroups(ctx context.Context, f *driver.GroupFilter) (*driver.GroupPage, error) {
	return ask(ctx, s, "error_groups", s.Store.ErrorGroups, f)
}

func (s *store) Refused(ctx context.Context, f *driver.RefusedFilter) (*driver.RefusedPage, error) {
	return ask(ctx, s, "refused", s.Store.Refused, f)
}

func (s *store) WatchFeed(ctx context.Context, p *driver.WatchFeedParams) (int64, error) {
	return ask(ctx, s, "watch_feed", s.Store.WatchFeed, p)
}

func (s *store) FeedWatched(ctx context.Context) (left time.Duration, err error) {
	defer s.observe("feed_watched", time.Now(), &err)
	return s.Store.FeedWatched(ctx)
}

func (s *store) CollectFeed(ctx context.Context) (result []driver.FeedRow, err error) {
	defer s.observe("collect_feed", time.Now(), &err)
	return s.Store.CollectFeed(ctx)
}

func (s *store) AddFeed(ctx context.Context, p *driver.AddFeedParams) (time.Duration, error) {
	return ask(ctx, s, "add_feed", s.Store.AddFeed, p)
}

func (s *store) ReadFeed(ctx context.Context, p *driver.ReadFeedParams) (*driver.FeedPage, error) {
	return ask(ctx, s, "read_feed", s.Store.ReadFeed, p)
}

func (s *store) TakeReconcile(ctx context.Context, p *driver.TakeReconcileParams) (*driver.Reconcile, error) {
	return ask(ctx, s, "take_reconcile", s.Store.TakeReconcile, p)
}

func (s *store) StepReconcile(ctx context.Context, p *driver.ReconcileStep) (bool, error) {
	return ask(ctx, s, "step_reconcile", s.Store.StepReconcile, p)
}

func (s *store) Reconciles(ctx context.Context, sources []string) ([]driver.Reconcile, error) {
	return ask(ctx, s, "reconciles", s.Store.Reconciles, sources)
}

func (s *store) ForgetReconciles(ctx context.Context, sources []string) error {
	return do(ctx, s, "forget_reconciles", s.Store.ForgetReconciles, sources)
}

func (s *store) PauseDestination(ctx context.Context, p *driver.PauseParams) (time.Time, error) {
	return ask(ctx, s, "pause_destination", s.Store.PauseDestination, p)
}

func (s *store) ResumeDestination(ctx context.Context, destination string) (bool, error) {
	return ask(ctx, s, "resume_destination", s.Store.ResumeDestination, destination)
}

func (s *store) PausedDestinations(ctx context.Context) (result []driver.PausedDestination, err error) {
	defer s.observe("paused_destinations", time.Now(), &err)
	return s.Store.PausedDestinations(ctx)
}

func (s *store) HurryMessages(ctx context.Context, p *driver.HurryParams) (int, error) {
	return ask(ctx, s, "hurry_messages", s.Store.HurryMessages, p)
}

func (s *store) Failures(ctx context.Context, destinations []string, limit int) (result []driver.Failure, err error) {
	defer s.observe("failures", time.Now(), &err)
	return s.Store.Failures(ctx, destinations, limit)
}

func (s *store) NewDead(ctx context.Context, p *driver.NewDeadParams) ([]driver.NewDead, error) {
	return ask(ctx, s, "new_dead", s.Store.NewDead, p)
}

func (s *store) Enqueue(ctx context.Context, messages []driver.OutboxMessage) error {
	return do(ctx, s, "enqueue", s.Store.Enqueue, messages)
}

func (s *store) Applied(ctx context.Context) (result []driver.Migration, err error) {
	defer s.observe("applied", time.Now(), &err)
	return s.Store.Applied(ctx)
}

func (s *store) Apply(ctx context.Context) (result []driver.Migration, err error) {
	defer s.observe("apply", time.Now(), &err)
	return s.Store.Apply(ctx)
}
