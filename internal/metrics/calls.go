package metrics

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func (s *store) Claim(ctx context.Context, p *driver.ClaimParams) (result []driver.ClaimResult, err error) {
	defer s.observe("claim", time.Now(), &err)
	return s.Store.Claim(ctx, p)
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

func (s *store) CountDeliveries(ctx context.Context, p *driver.CountDeliveriesParams) (err error) {
	defer s.observe("count_deliveries", time.Now(), &err)
	return s.Store.CountDeliveries(ctx, p)
}

func (s *store) Quarantine(ctx context.Context, p *driver.QuarantineParams) (err error) {
	defer s.observe("quarantine", time.Now(), &err)
	return s.Store.Quarantine(ctx, p)
}

func (s *store) SettleQuarantined(ctx context.Context, p *driver.SettleQuarantinedParams) (result bool, err error) {
	defer s.observe("settle_quarantined", time.Now(), &err)
	return s.Store.SettleQuarantined(ctx, p)
}

func (s *store) Lease(ctx context.Context, p *driver.LeaseParams) (result *driver.Leased, err error) {
	defer s.observe("lease", time.Now(), &err)
	return s.Store.Lease(ctx, p)
}

func (s *store) Complete(ctx context.Context, p *driver.CompleteParams) (result []bool, err error) {
	defer s.observe("complete", time.Now(), &err)
	return s.Store.Complete(ctx, p)
}

func (s *store) Release(ctx context.Context, p *driver.ReleaseParams) (err error) {
	defer s.observe("release", time.Now(), &err)
	return s.Store.Release(ctx, p)
}

func (s *store) EventParts(ctx context.Context, keys []driver.Key) (result []driver.EventParts, err error) {
	defer s.observe("event_parts", time.Now(), &err)
	return s.Store.EventParts(ctx, keys)
}

func (s *store) Replay(ctx context.Context, p *driver.ReplayParams) (result *driver.Replayed, err error) {
	defer s.observe("replay", time.Now(), &err)
	return s.Store.Replay(ctx, p)
}

func (s *store) ReplayDead(ctx context.Context, p *driver.DeadLetterParams) (result []bool, err error) {
	defer s.observe("replay_dead", time.Now(), &err)
	return s.Store.ReplayDead(ctx, p)
}

func (s *store) Discard(ctx context.Context, p *driver.DeadLetterParams) (result []bool, err error) {
	defer s.observe("discard", time.Now(), &err)
	return s.Store.Discard(ctx, p)
}

func (s *store) RetryMessage(ctx context.Context, p *driver.RetryMessageParams) (err error) {
	defer s.observe("retry_message", time.Now(), &err)
	return s.Store.RetryMessage(ctx, p)
}

func (s *store) DeadLetters(ctx context.Context, f *driver.MessageFilter) (result *driver.DeadLetterPage, err error) {
	defer s.observe("dead_letters", time.Now(), &err)
	return s.Store.DeadLetters(ctx, f)
}

func (s *store) Messages(ctx context.Context, f *driver.MessageFilter) (result *driver.MessagePage, err error) {
	defer s.observe("messages", time.Now(), &err)
	return s.Store.Messages(ctx, f)
}

func (s *store) Quarantined(ctx context.Context, f *driver.QuarantineFilter) (result *driver.QuarantinePage, err error) {
	defer s.observe("quarantined", time.Now(), &err)
	return s.Store.Quarantined(ctx, f)
}

func (s *store) QuarantinedRequest(ctx context.Context, key driver.Key) (result *driver.QuarantinedRequest, err error) {
	defer s.observe("quarantined_request", time.Now(), &err)
	return s.Store.QuarantinedRequest(ctx, key)
}

func (s *store) Stats(ctx context.Context) (result *driver.Stats, err error) {
	defer s.observe("stats", time.Now(), &err)
	return s.Store.Stats(ctx)
}

func (s *store) Events(ctx context.Context, f *driver.EventFilter) (result *driver.EventPage, err error) {
	defer s.observe("events", time.Now(), &err)
	return s.Store.Events(ctx, f)
}

func (s *store) Redact(ctx context.Context, p *driver.RedactParams) (result *driver.Redacted, err error) {
	defer s.observe("redact", time.Now(), &err)
	return s.Store.Redact(ctx, p)
}

func (s *store) Event(ctx context.Context, source, eventID string) (result *driver.EventDetail, err error) {
	defer s.observe("event", time.Now(), &err)
	return s.Store.Event(ctx, source, eventID)
}

func (s *store) DueDestinations(ctx context.Context, destinations []string) (result []string, err error) {
	defer s.observe("due_destinations", time.Now(), &err)
	return s.Store.DueDestinations(ctx, destinations)
}

func (s *store) DueSources(ctx context.Context, sources []string) (result []driver.DueSource, err error) {
	defer s.observe("due_sources", time.Now(), &err)
	return s.Store.DueSources(ctx, sources)
}

func (s *store) Reserve(ctx context.Context, p *driver.ReserveParams) (result []driver.TakenEvent, err error) {
	defer s.observe("reserve", time.Now(), &err)
	return s.Store.Reserve(ctx, p)
}

func (s *store) RecordReserved(ctx context.Context, p *driver.FinishParams) (err error) {
	defer s.observe("record_reserved", time.Now(), &err)
	return s.Store.RecordReserved(ctx, p)
}

func (s *store) SweepRuns(ctx context.Context, p *driver.SweepRunsParams) (result []driver.LostRun, err error) {
	defer s.observe("sweep_runs", time.Now(), &err)
	return s.Store.SweepRuns(ctx, p)
}

func (s *store) Admit(ctx context.Context, p *driver.AdmitParams) (result []driver.Admission, err error) {
	defer s.observe("admit", time.Now(), &err)
	return s.Store.Admit(ctx, p)
}

func (s *store) SettleLines(ctx context.Context, ids []string) (err error) {
	defer s.observe("settle_lines", time.Now(), &err)
	return s.Store.SettleLines(ctx, ids)
}

func (s *store) SweepLines(ctx context.Context, after driver.Key, limit int) (seen int, last driver.Key, err error) {
	defer s.observe("sweep_lines", time.Now(), &err)
	return s.Store.SweepLines(ctx, after, limit)
}

func (s *store) WaitingBehind(ctx context.Context, messageID string) (result int, err error) {
	defer s.observe("waiting_behind", time.Now(), &err)
	return s.Store.WaitingBehind(ctx, messageID)
}

func (s *store) Versions(ctx context.Context, objects []driver.Key) (result map[driver.Key]driver.ObjectVersion, err error) {
	defer s.observe("versions", time.Now(), &err)
	return s.Store.Versions(ctx, objects)
}

func (s *store) CountInlineFailure(ctx context.Context, p *driver.InlineFailure) (result *driver.InlineFailed, err error) {
	defer s.observe("count_inline_failure", time.Now(), &err)
	return s.Store.CountInlineFailure(ctx, p)
}

func (s *store) FileInlineFailures(ctx context.Context, p *driver.FileFailuresParams) (result []driver.FiledFailure, err error) {
	defer s.observe("file_inline_failures", time.Now(), &err)
	return s.Store.FileInlineFailures(ctx, p)
}

func (s *store) Arm(ctx context.Context, p *driver.ArmParams) (result *driver.SourceSecrets, err error) {
	defer s.observe("arm", time.Now(), &err)
	return s.Store.Arm(ctx, p)
}

func (s *store) LearnSecret(ctx context.Context, p *driver.LearnParams) (result bool, err error) {
	defer s.observe("learn_secret", time.Now(), &err)
	return s.Store.LearnSecret(ctx, p)
}

func (s *store) LearnedSecrets(ctx context.Context, sources []string) (result []driver.SourceSecrets, err error) {
	defer s.observe("learned_secrets", time.Now(), &err)
	return s.Store.LearnedSecrets(ctx, sources)
}

func (s *store) RegisterWindows(ctx context.Context, p *driver.PruneParams) (err error) {
	defer s.observe("register_windows", time.Now(), &err)
	return s.Store.RegisterWindows(ctx, p)
}

func (s *store) Prune(ctx context.Context, p *driver.PruneParams) (result *driver.PruneResult, err error) {
	defer s.observe("prune", time.Now(), &err)
	return s.Store.Prune(ctx, p)
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

func (s *store) Backlog(ctx context.Context, p *driver.BacklogParams) (result *driver.Backlog, err error) {
	defer s.observe("backlog", time.Now(), &err)
	return s.Store.Backlog(ctx, p)
}

func (s *store) AddFigures(ctx context.Context, p *driver.AddFiguresParams) (err error) {
	defer s.observe("add_figures", time.Now(), &err)
	return s.Store.AddFigures(ctx, p)
}

func (s *store) Series(ctx context.Context, f *driver.SeriesFilter) (result []driver.Point, err error) {
	defer s.observe("series", time.Now(), &err)
	return s.Store.Series(ctx, f)
}

func (s *store) AddRefused(ctx context.Context, p *driver.AddRefusedParams) (err error) {
	defer s.observe("add_refused", time.Now(), &err)
	return s.Store.AddRefused(ctx, p)
}

func (s *store) AddJob(ctx context.Context, p *driver.AddJobParams) (result *driver.Job, err error) {
	defer s.observe("add_job", time.Now(), &err)
	return s.Store.AddJob(ctx, p)
}

func (s *store) Job(ctx context.Context, id string) (result *driver.Job, err error) {
	defer s.observe("job", time.Now(), &err)
	return s.Store.Job(ctx, id)
}

func (s *store) Jobs(ctx context.Context, f *driver.JobFilter) (result *driver.JobPage, err error) {
	defer s.observe("jobs", time.Now(), &err)
	return s.Store.Jobs(ctx, f)
}

func (s *store) StartJob(ctx context.Context, p *driver.ChangeJobParams) (result *driver.Job, err error) {
	defer s.observe("start_job", time.Now(), &err)
	return s.Store.StartJob(ctx, p)
}

func (s *store) CancelJob(ctx context.Context, p *driver.ChangeJobParams) (result *driver.Job, err error) {
	defer s.observe("cancel_job", time.Now(), &err)
	return s.Store.CancelJob(ctx, p)
}

func (s *store) TakeJob(ctx context.Context, p *driver.TakeJobParams) (result *driver.Job, err error) {
	defer s.observe("take_job", time.Now(), &err)
	return s.Store.TakeJob(ctx, p)
}

func (s *store) Undiscard(ctx context.Context, p *driver.UndiscardParams) (result *driver.Undiscarded, err error) {
	defer s.observe("undiscard", time.Now(), &err)
	return s.Store.Undiscard(ctx, p)
}

func (s *store) Discards(ctx context.Context, operation string) (result *driver.Discarded, err error) {
	defer s.observe("discards", time.Now(), &err)
	return s.Store.Discards(ctx, operation)
}

func (s *store) StepJob(ctx context.Context, p *driver.JobStep) (held bool, done []bool, err error) {
	defer s.observe("step_job", time.Now(), &err)
	return s.Store.StepJob(ctx, p)
}

func (s *store) ErrorGroups(ctx context.Context, f *driver.GroupFilter) (result *driver.GroupPage, err error) {
	defer s.observe("error_groups", time.Now(), &err)
	return s.Store.ErrorGroups(ctx, f)
}

func (s *store) Refused(ctx context.Context, f *driver.RefusedFilter) (result *driver.RefusedPage, err error) {
	defer s.observe("refused", time.Now(), &err)
	return s.Store.Refused(ctx, f)
}

func (s *store) WatchFeed(ctx context.Context, p *driver.WatchFeedParams) (last int64, err error) {
	defer s.observe("watch_feed", time.Now(), &err)
	return s.Store.WatchFeed(ctx, p)
}

func (s *store) FeedWatched(ctx context.Context) (left time.Duration, err error) {
	defer s.observe("feed_watched", time.Now(), &err)
	return s.Store.FeedWatched(ctx)
}

func (s *store) CollectFeed(ctx context.Context) (result []driver.FeedRow, err error) {
	defer s.observe("collect_feed", time.Now(), &err)
	return s.Store.CollectFeed(ctx)
}

func (s *store) AddFeed(ctx context.Context, p *driver.AddFeedParams) (left time.Duration, err error) {
	defer s.observe("add_feed", time.Now(), &err)
	return s.Store.AddFeed(ctx, p)
}

func (s *store) ReadFeed(ctx context.Context, p *driver.ReadFeedParams) (result *driver.FeedPage, err error) {
	defer s.observe("read_feed", time.Now(), &err)
	return s.Store.ReadFeed(ctx, p)
}

func (s *store) PauseDestination(ctx context.Context, p *driver.PauseParams) (result time.Time, err error) {
	defer s.observe("pause_destination", time.Now(), &err)
	return s.Store.PauseDestination(ctx, p)
}

func (s *store) ResumeDestination(ctx context.Context, destination string) (result bool, err error) {
	defer s.observe("resume_destination", time.Now(), &err)
	return s.Store.ResumeDestination(ctx, destination)
}

func (s *store) PausedDestinations(ctx context.Context) (result []driver.PausedDestination, err error) {
	defer s.observe("paused_destinations", time.Now(), &err)
	return s.Store.PausedDestinations(ctx)
}

func (s *store) HurryMessages(ctx context.Context, p *driver.HurryParams) (result int, err error) {
	defer s.observe("hurry_messages", time.Now(), &err)
	return s.Store.HurryMessages(ctx, p)
}

func (s *store) Failures(ctx context.Context, destinations []string, limit int) (result []driver.Failure, err error) {
	defer s.observe("failures", time.Now(), &err)
	return s.Store.Failures(ctx, destinations, limit)
}

func (s *store) NewDead(ctx context.Context, p *driver.NewDeadParams) (result []driver.NewDead, err error) {
	defer s.observe("new_dead", time.Now(), &err)
	return s.Store.NewDead(ctx, p)
}

func (s *store) Enqueue(ctx context.Context, messages []driver.OutboxMessage) (err error) {
	defer s.observe("enqueue", time.Now(), &err)
	return s.Store.Enqueue(ctx, messages)
}

func (s *store) Applied(ctx context.Context) (result []driver.Migration, err error) {
	defer s.observe("applied", time.Now(), &err)
	return s.Store.Applied(ctx)
}

func (s *store) Apply(ctx context.Context) (result []driver.Migration, err error) {
	defer s.observe("apply", time.Now(), &err)
	return s.Store.Apply(ctx)
}
