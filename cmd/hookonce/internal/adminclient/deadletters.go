package adminclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// maxIDs is how many ids one request names. The API takes 1,000 in at most 1 MiB.
const maxIDs = 500

// Query returns the parameters of the listing of the same dead letters, which ids do not select.
func (w *DeadLetterWork) Query() url.Values {
	query := make(url.Values)
	for name, value := range map[string]string{
		"source": w.Source, "type": w.Type, "destination": w.Destination, "note": w.Note, "q": w.Q, "since": w.Since, "until": w.Until,
		"cursor": w.Cursor,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// Job returns the request of a job for the same dead letters.
func (w *DeadLetterWork) Job(action string) *JobRequest {
	return &JobRequest{
		Of: driver.JobOfDeadLetters, Action: action, Rate: w.Rate,
		Filter: JobFilter{
			Source: w.Source, Type: w.Type, Destination: w.Destination, Note: w.Note, Q: w.Q, Since: w.Since, Until: w.Until, All: w.All,
		},
	}
}

// LettersWorked counts the outcomes of work on dead letters.
type LettersWorked struct {
	Done, Passed int
	Complete     bool
	// Next is the cursor that continues interrupted work; "" if there is none.
	Next string
	// RequestID is of a discard: by it the discard can be undone.
	RequestID string
}

// Shape returns the result as the API prints it; verb is "replay" or "discard".
func (w *LettersWorked) Shape(verb string) *hookadmin.Worked {
	shape := &hookadmin.Worked{Passed: w.Passed, Complete: w.Complete, Next: w.Next, RequestID: w.RequestID}
	if verb == "replay" {
		shape.Replayed = &w.Done
	} else {
		shape.Discarded = &w.Done
	}
	return shape
}

// WorkOnDeadLetters replays or discards the dead letters with the ids of work; verb is "replay" or
// "discard". It sends as many requests as the work needs, all with key: one undo takes all of a
// discard back. If it fails, or ctx ends, the result still counts the answered part.
func (c *Client) WorkOnDeadLetters(ctx context.Context, verb, key string, work *DeadLetterWork) (*LettersWorked, error) {
	result := new(LettersWorked)
	part := *work
	if len(work.IDs) <= maxIDs {
		return result, result.work(ctx, c, verb, key, &part)
	}
	for ids := range slices.Chunk(work.IDs, maxIDs) {
		part.IDs = ids
		if err := result.work(ctx, c, verb, key, &part); err != nil {
			return result, err
		}
	}
	return result, nil
}

// work sends one request.
func (w *LettersWorked) work(ctx context.Context, c *Client, verb, key string, part *DeadLetterWork) error {
	answer := new(hookadmin.Worked)
	if err := c.PostBulk(ctx, api+"/dead-letters/"+verb, key, part, answer); err != nil {
		return err
	}
	for _, done := range []*int{answer.Replayed, answer.Discarded} {
		if done != nil {
			w.Done += *done
		}
	}
	w.Passed += answer.Passed
	w.Complete, w.RequestID = answer.Complete, answer.RequestID
	if !w.Complete {
		return errors.New("the time for one request ran out")
	}
	return nil
}

// Undo takes a discard back. If the gateway does it by a job, Undo waits for the end of the job, and calls progress
// meanwhile. The error matches driver.ErrNotFound, driver.ErrTooLate or driver.ErrOpen. Repeating it is
// safe.
func (c *Client) Undo(ctx context.Context, requestID string, progress func(*Job)) (*hookadmin.Undone, error) {
	var answer struct {
		hookadmin.Undone
		hookadmin.Accepted
	}
	err := c.PostBulk(ctx, api+"/dead-letters/undo", "", map[string]string{"request_id": requestID}, &answer)
	if err != nil || answer.Job == "" {
		return &answer.Undone, err
	}
	job, err := get[Job](ctx, c, api+"/jobs"+Path(answer.Job), nil)
	job, err = c.followJob(ctx, job, err, progress)
	switch {
	case err == nil && job.State != driver.JobDone:
		err = fmt.Errorf("%s is %s: %s", job.ID, job.State, job.LastError)
	case job == nil:
		return &answer.Undone, err
	}
	return &hookadmin.Undone{Undone: int(job.Done), Skipped: int(job.Skipped + job.Failed)}, err
}
