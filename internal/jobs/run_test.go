package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/jobs"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// TestLettersThatDieAgain replays letters to a destination where they die again at once.
func TestLettersThatDieAgain(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	all := die(t, store, "e", 450)
	start(t, store, "job_1", driver.JobSpec{Action: driver.JobReplay}, driver.JobSelection{Source: "shop"})
	late := die(t, store, "a-late", 3) // after the start
	run(t, store)
	got := until(t, store, "job_1", func(j *driver.Job) bool { killDue(t, store); return isEnded(j) })
	if got.State != driver.JobDone || got.Done != 450 || got.Skipped != 0 || got.Failed != 0 {
		t.Errorf("the job is %+v, want 450 done", got)
	}
	wantOnce(t, store, all, driver.ActionReplayed, "job_1")
	for i := range late {
		if ev, err := store.Event(t.Context(), "shop", late[i].EventID); err != nil || len(ev.History) != 0 {
			t.Errorf("the letter that died after the start has the history %+v, error %v", ev.History, err)
		}
	}
}

func TestCancelAndResume(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	all := die(t, store, "e", 60)
	start(t, store, "job_1", driver.JobSpec{Action: driver.JobDiscard, Rate: "100"}, driver.JobSelection{Source: "shop"})
	r, log, _ := run(t, store)
	until(t, store, "job_1", func(j *driver.Job) bool { return j.Done > 5 })
	cancelled, err := store.CancelJob(t.Context(), &driver.ChangeJobParams{ID: "job_1"})
	if err != nil || cancelled.Done == 60 {
		t.Fatalf("the job is %+v, error %v; want it cancelled before its end", cancelled, err)
	}
	began := time.Now()
	eventually.True(t, "the job stops", func() bool { return strings.Contains(log.Text(), "job stopped") })
	t.Logf("the runner noticed after %v", time.Since(began))
	if got := job(t, store, "job_1"); got.Done != cancelled.Done || got.State != driver.JobCancelled {
		t.Errorf("after the cancellation the job went on to %+v", got)
	}
	if _, err := store.StartJob(t.Context(), &driver.ChangeJobParams{ID: "job_1"}); err != nil {
		t.Fatal(err)
	}
	r.Wake()
	if got := until(t, store, "job_1", isEnded); got.Done != 60 || got.Skipped != 0 {
		t.Errorf("the job is %+v, want 60 done", got)
	}
	wantOnce(t, store, all, driver.ActionDiscarded, "job_1")
}

// TestDatabaseErrors fails steps before and after their commit. The job retries, and changes each letter
// once.
func TestDatabaseErrors(t *testing.T) {
	t.Parallel()
	causes := map[string]error{"before the commit": driver.ErrUnavailable, "after the commit": driver.ErrCommitUnknown}
	for name, fault := range map[string]faulty{"before the commit": {before: 1}, "after the commit": {after: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault.Store = rig.OpenSQLite(t)
			all := die(t, fault.Store, "e", 250)
			start(t, fault.Store, "job_1", driver.JobSpec{Action: driver.JobDiscard}, driver.JobSelection{Source: "shop"})
			run(t, &fault)
			got := until(t, fault.Store, "job_1", isEnded)
			if got.State != driver.JobDone || got.Done != 250 || got.Skipped != 0 || got.LastError != causes[name].Error() {
				t.Errorf("the job is %+v, want 250 done, with the error %q", got, causes[name])
			}
			wantOnce(t, fault.Store, all, driver.ActionDiscarded, "job_1")
		})
	}
}

// TestRefusedLetter has a trigger that refuses to change one letter. The job counts it as failed, and changes the others once:
// also if the reason may concern all, and if a step has one letter.
func TestRefusedLetter(t *testing.T) {
	t.Parallel()
	for action, told := range map[string]string{driver.JobDiscard: driver.ActionDiscarded, driver.JobReplay: driver.ActionReplayed} {
		for _, code := range []string{"UX001", "42501"} {
			for _, rate := range []string{"", "20"} {
				t.Run(action+" "+code+" "+rate, func(t *testing.T) {
					t.Parallel()
					store, dsn, schema := openPostgres(t)
					all := die(t, store, "e", 30)
					refusal, _ := storetest.RefuseRow("message", all[7].Key)
					execute(t, dsn, schema, strings.Replace(refusal.Begin, "'not this one'", "'not this one' USING ERRCODE = '"+code+"'", 1))
					start(t, store, "job_1", driver.JobSpec{Action: action, Rate: rate}, driver.JobSelection{Source: "shop"})
					run(t, store)
					got := until(t, store, "job_1", isEnded)
					if got.State != driver.JobDone || got.Done != 29 || got.Failed != 1 || got.Skipped != 0 || !strings.Contains(got.LastError, all[7].EventID) {
						t.Errorf("the job is %+v, want 29 done and %s refused", got, all[7].EventID)
					}
					wantOnce(t, store, slices.Delete(slices.Clone(all), 7, 8), told, "job_1")
				})
			}
		}
	}
}

// TestPassesOverRefused has a trigger that refuses the first 25 and the last 2 of 33, for a reason that may concern all. Each kind
// of job changes the others, counts the refused ones, and ends.
func TestPassesOverRefused(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]driver.JobSpec{
		"discard": {Action: driver.JobDiscard}, "discard slowly": {Action: driver.JobDiscard, Rate: "40"},
		"replay": {Action: driver.JobReplay}, "events": {Of: driver.JobOfEvents, Action: driver.JobReplay},
		"events slowly": {Of: driver.JobOfEvents, Action: driver.JobReplay, Rate: "40"}, "undo": {Action: driver.JobUndo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, dsn, schema := openPostgres(t)
			all := die(t, store, "e", 33) // listings begin with the last one
			run(t, store)
			sel := driver.JobSelection{Source: "shop"}
			if spec.Action == driver.JobUndo {
				sel = discarded(t, store)
			}
			refuseLetters(t, dsn, schema, slices.Concat(all[:2], all[8:])...)
			start(t, store, "job_1", spec, sel)
			got := until(t, store, "job_1", isEnded)
			if got.State != driver.JobDone || got.Done != 6 || got.Failed != 27 || got.Skipped != 0 || got.LastError == "" {
				t.Errorf("the job is %+v, want 6 done and 27 refused", got)
			}
		})
	}
}

// discarded discards all letters, and returns the selection for the undo.
func discarded(t *testing.T, store driver.Store) driver.JobSelection {
	t.Helper()
	start(t, store, "discard", driver.JobSpec{Action: driver.JobDiscard}, driver.JobSelection{Source: "shop"})
	until(t, store, "discard", isEnded)
	return driver.JobSelection{RequestID: "discard"}
}

// TestLeaseWhileRefused has a trigger that slowly refuses one event after the other. The job renews its lease meanwhile, and stops
// soon after a cancellation.
func TestLeaseWhileRefused(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]driver.JobSpec{
		"discard": {Action: driver.JobDiscard}, "events": {Of: driver.JobOfEvents, Action: driver.JobReplay}, "undo": {Action: driver.JobUndo},
	} {
		for _, code := range []string{"UX001", "42501"} { // by the row, or for a reason that may concern all
			t.Run(name+" "+code, func(t *testing.T) {
				t.Parallel()
				store, dsn, schema := openPostgres(t)
				die(t, store, "e", 20)
				_, log, _ := run(t, store)
				sel := driver.JobSelection{Source: "shop"}
				if spec.Action == driver.JobUndo {
					sel = discarded(t, store)
				}
				execute(t, dsn, schema, `CREATE SEQUENCE {schema}.refusals;
					CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					PERFORM nextval('{schema}.refusals'), pg_sleep(0.3); RAISE EXCEPTION 'slowly' USING ERRCODE = '`+code+`'; END $$;
					CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.message FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()`)
				look := func() (refusals int, until time.Time) {
					query(t, dsn, schema, `SELECT CASE WHEN is_called THEN last_value ELSE 0 END, leased_until
						FROM {schema}.refusals, {schema}.job WHERE id = 'job_1'`, &refusals, &until)
					return refusals, until
				}
				start(t, store, "job_1", spec, sel)
				var before, after int
				var first, next time.Time
				eventually.True(t, "the database refuses an event", func() bool { before, first = look(); return before > 0 })
				eventually.True(t, "the lease is renewed", func() bool { after, next = look(); return next.After(first) })
				if after-before > 10 {
					t.Errorf("the lease is renewed after %d refusals of 0.3 s", after-before)
				}
				if _, err := store.CancelJob(t.Context(), &driver.ChangeJobParams{ID: "job_1"}); err != nil {
					t.Fatal(err)
				}
				before, _ = look()
				eventually.True(t, "the job stops", func() bool { return strings.Contains(log.Text(), "job stopped") })
				if after, _ = look(); after-before > 10 {
					t.Errorf("after its cancellation the job goes on for %d refusals of 0.3 s", after-before)
				}
			})
		}
	}
}

// TestRefusedAtTheEnd has a trigger that refuses the last 2 of 12, for a reason that may concern all. A job that has changed the
// others, some in a step, ends without a pause.
func TestRefusedAtTheEnd(t *testing.T) {
	t.Parallel()
	store, dsn, schema := openPostgres(t)
	all := die(t, store, "e", 12) // the listing begins with the last one
	refuseLetters(t, dsn, schema, all[0], all[1])
	start(t, store, "job_1", driver.JobSpec{Action: driver.JobDiscard, Rate: "10"}, driver.JobSelection{Source: "shop"})
	_, log, _ := run(t, store)
	got := until(t, store, "job_1", isEnded)
	if got.State != driver.JobDone || got.Done != 10 || got.Failed != 2 || strings.Contains(log.Text(), "retrying") {
		t.Errorf("the job is %+v, want 10 done and 2 refused without a pause; its log:\n%s", got, log.Text())
	}
}

// TestUndoOfARefusedLetter has a trigger that refuses to make one letter dead again. The others become dead.
func TestUndoOfARefusedLetter(t *testing.T) {
	t.Parallel()
	store, dsn, schema := openPostgres(t)
	all := die(t, store, "e", 300)
	run(t, store)
	start(t, store, "job_1", driver.JobSpec{Action: driver.JobDiscard}, driver.JobSelection{Source: "shop"})
	until(t, store, "job_1", isEnded)
	refusal, _ := storetest.RefuseRow("message", all[7].Key)
	execute(t, dsn, schema, refusal.Begin)
	start(t, store, "job_2", driver.JobSpec{Action: driver.JobUndo}, driver.JobSelection{RequestID: "job_1"})
	got := until(t, store, "job_2", isEnded)
	if got.State != driver.JobDone || got.Done != 299 || got.Failed != 1 || got.Skipped != 0 || !strings.Contains(got.LastError, "stays discarded") {
		t.Errorf("the job is %+v, want 299 done and 1 failed", got)
	}
	for i, want := range map[int]string{6: driver.StateDead, 7: driver.StateSkipped, 299: driver.StateDead} {
		if ev, err := store.Event(t.Context(), "shop", all[i].EventID); err != nil || ev.State != want {
			t.Errorf("%s is %s, error %v; want %s", all[i].EventID, ev.State, err, want)
		}
	}
}

// TestUndoAfterTheClockWasSetBack undoes the second discard of a letter. The history shows the first one behind it.
func TestUndoAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	store, dsn, schema := openPostgres(t)
	die(t, store, "e", 1)
	run(t, store)
	work := func(id, action, of string) *driver.Job {
		start(t, store, id, driver.JobSpec{Action: action}, driver.JobSelection{RequestID: of})
		return until(t, store, id, isEnded)
	}
	work("first", driver.JobDiscard, "")
	work("undo_first", driver.JobUndo, "first")
	execute(t, dsn, schema, `UPDATE {schema}.history SET id = overlay(id::text placing 'f' from 1 for 1)::uuid`)
	work("second", driver.JobDiscard, "")
	if got := work("undo_first_again", driver.JobUndo, "first"); got.Done != 0 || got.Skipped != 1 {
		t.Errorf("the first discard was undone twice: %+v", got)
	}
	if got := work("undo_second", driver.JobUndo, "second"); got.Done != 1 {
		t.Errorf("the undo is %+v, want 1 done", got)
	}
}

// TestStopGivesTheJobBack stops a runner in the middle of a job. The next one need not wait for the end
// of the lease.
func TestStopGivesTheJobBack(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	die(t, store, "e", 50)
	start(t, store, "job_1", driver.JobSpec{Action: driver.JobDiscard, Rate: "10"}, driver.JobSelection{Source: "shop"})
	_, _, stop := run(t, store)
	until(t, store, "job_1", func(j *driver.Job) bool { return j.Done > 1 })
	stop()
	before := job(t, store, "job_1")
	got, err := store.TakeJob(t.Context(), &driver.TakeJobParams{Owner: "next", For: time.Minute})
	if err != nil || got == nil || got.Fence != before.Fence+1 || got.Done != before.Done {
		t.Errorf("took %+v, error %v; want the job as it was: %+v", got, err, before)
	}
}

// TestWorkOnOneJob works on one of two jobs until its context ends, and then to its end.
func TestWorkOnOneJob(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	all := die(t, store, "e", 50)
	discard := driver.JobSpec{Action: driver.JobDiscard, Rate: "2"}
	start(t, store, "other", discard, driver.JobSelection{Text: "none"})
	start(t, store, "job_1", discard, driver.JobSelection{Source: "shop"})
	r := newRunner(store, &rig.Log{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan *driver.Job)
	go func() {
		got, err := r.Work(ctx, "job_1")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v, want %v", err, context.Canceled)
		}
		stopped <- got
	}()
	until(t, store, "job_1", func(j *driver.Job) bool { return j.Done > 1 })
	cancel()
	if got := <-stopped; got.State != driver.JobRunning || got.Done < 2 || got.Done == 50 {
		t.Errorf("the job is %+v, want a part of it done", got)
	}
	got, err := r.Unpaced().Work(t.Context(), "job_1")
	if err != nil || got.State != driver.JobDone || got.Done != 50 || got.Skipped != 0 {
		t.Errorf("the job is %+v, error %v, want 50 done", got, err)
	}
	wantOnce(t, store, all, driver.ActionDiscarded, "job_1")
	if got := job(t, store, "other"); got.Fence != 0 {
		t.Errorf("the other job was taken: %+v", got)
	}
}

func TestBrokenJobs(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	for id, spec := range map[string]driver.JobSpec{
		"filter": {Action: driver.JobReplay, Filter: "{"},
		"key":    {Action: driver.JobReplay, Filter: `{"source":"shop","colour":"red"}`},
		"action": {Action: "burn"},
		"of":     {Action: driver.JobReplay, Of: "quarantine"},
		"rate":   {Action: driver.JobReplay, Rate: "fast"},
		"mode":   {Action: driver.JobReplay, Of: driver.JobOfEvents, Mode: "new"},
		"events": {Action: driver.JobDiscard, Of: driver.JobOfEvents},
	} {
		start(t, store, id, spec, driver.JobSelection{})
	}
	run(t, store)
	for _, id := range []string{"filter", "key", "action", "of", "rate", "mode", "events"} {
		if got := until(t, store, id, isEnded); got.State != driver.JobFailed || got.LastError == "" {
			t.Errorf("the job with a bad %s is %+v, want it failed", id, got)
		}
	}
}

func TestIDsAndUndo(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	die(t, store, "e", 300)
	message := driver.MessageID(driver.EventKey("shop", "e0007"), 0, "billing")
	start(t, store, "ids", driver.JobSpec{Action: driver.JobDiscard}, driver.JobSelection{Source: "shop", EventIDs: []string{"e0001", "none", "e0002"}})
	start(t, store, "messages", driver.JobSpec{Action: driver.JobDiscard}, driver.JobSelection{MessageIDs: []string{message}})
	named := []driver.JobEvent{{Source: "shop", ID: "e0003"}, {Source: "lab", ID: "e0004"}}
	start(t, store, "events", driver.JobSpec{Action: driver.JobDiscard}, driver.JobSelection{Events: named})
	r, _, _ := run(t, store)
	for id, want := range map[string][2]int64{"ids": {2, 1}, "messages": {1, 0}, "events": {1, 1}} {
		if got := until(t, store, id, isEnded); [2]int64{got.Done, got.Skipped} != want {
			t.Errorf("the job by %s is %+v, want %d done and %d skipped", id, got, want[0], want[1])
		}
	}
	start(t, store, "rest", driver.JobSpec{Action: driver.JobDiscard}, driver.JobSelection{})
	r.Wake()
	if got := until(t, store, "rest", isEnded); got.Done != 296 {
		t.Errorf("the job is %+v, want 296 done", got)
	}
	start(t, store, "undo", driver.JobSpec{Action: driver.JobUndo}, driver.JobSelection{RequestID: "rest"})
	r.Wake()
	if got := until(t, store, "undo", isEnded); got.Done != 296 || got.State != driver.JobDone {
		t.Errorf("the job is %+v, want 296 done", got)
	}
}

// TestDiscardedEvents leaves discarded events out of a replay of events, unless the selection asks for them.
func TestDiscardedEvents(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	die(t, store, "e", 3)
	start(t, store, "discard", driver.JobSpec{Action: driver.JobDiscard}, driver.JobSelection{EventIDs: []string{"e0001", "e0002"}, Source: "shop"})
	r, _, _ := run(t, store)
	until(t, store, "discard", isEnded)
	for _, tt := range []struct {
		sel   driver.JobSelection
		count int
	}{
		{driver.JobSelection{}, 1},
		{driver.JobSelection{Source: "shop"}, 1},
		{driver.JobSelection{Note: driver.NoteDiscarded}, 2},
		{driver.JobSelection{State: driver.StateSkipped}, 2},
		{driver.JobSelection{Source: "shop", EventIDs: []string{"e0001"}}, 1},
	} {
		plan, err := jobs.Plan(t.Context(), store, driver.JobOfEvents, &tt.sel, noForesight)
		if err != nil || plan.Count != tt.count {
			t.Errorf("the plan of %+v is %+v, error %v; want %d events", tt.sel, plan, err, tt.count)
		}
	}
	spec := driver.JobSpec{Of: driver.JobOfEvents, Action: driver.JobReplay}
	start(t, store, "all", spec, driver.JobSelection{})
	r.Wake()
	if got := until(t, store, "all", isEnded); got.Done != 1 || got.Failed+got.Skipped != 0 {
		t.Errorf("the job is %+v, want 1 done", got)
	}
	start(t, store, "discarded", spec, driver.JobSelection{Note: driver.NoteDiscarded})
	r.Wake()
	if got := until(t, store, "discarded", isEnded); got.Done != 2 {
		t.Errorf("the job is %+v, want 2 done", got)
	}
}

// TestTwoRunners works on jobs by two runners on one PostgreSQL. Each job is taken once.
func TestTwoRunners(t *testing.T) {
	t.Parallel()
	store, _, _ := openPostgres(t)
	letters := group.Rounds(80, 250)
	var all [6][]driver.Claim
	for i := range all {
		prefix := fmt.Sprintf("j%d-", i)
		all[i] = die(t, store, prefix, letters)
		start(t, store, "job_"+prefix, driver.JobSpec{Action: driver.JobReplay, Rate: "1000"}, driver.JobSelection{Text: prefix})
	}
	run(t, store)
	run(t, store)
	for i := range all {
		id := fmt.Sprintf("job_j%d-", i)
		if got := until(t, store, id, isEnded); got.Fence != 1 || got.Done != int64(letters) || got.Skipped != 0 {
			t.Errorf("%s is %+v, want it taken once, and %d done", id, got, letters)
		}
		wantOnce(t, store, all[i], driver.ActionReplayed, id)
	}
}

// TestKilledProcess kills a process in the middle of a job with SIGKILL. Another one ends the job, and
// each letter is replayed once.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	store, dsn, schema := openPostgres(t)
	all := die(t, store, "e", 400)
	start(t, store, "job_1", driver.JobSpec{Action: driver.JobReplay, Rate: "200"}, driver.JobSelection{Source: "shop"})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDSN+"="+dsn, childSchema+"="+schema)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test failed before
	until(t, store, "job_1", func(j *driver.Job) bool { return j.Done > 20 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if got := job(t, store, "job_1"); isEnded(got) {
		t.Fatalf("the job is %+v: it ended before the kill", got)
	}
	run(t, store)
	if got := until(t, store, "job_1", isEnded); got.Done != 400 || got.Skipped != 0 || got.Fence != 2 {
		t.Errorf("the job is %+v, want 400 done, and the job taken twice", got)
	}
	wantOnce(t, store, all, driver.ActionReplayed, "job_1")
}
