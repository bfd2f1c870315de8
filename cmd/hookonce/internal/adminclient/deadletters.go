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

// LettersQuery returns the parameters of the listing of the dead letters that q selects by filters.
func LettersQuery(q *hookadmin.DeadLettersRequest) url.Values {
	query := make(url.Values)
	for name, value := range map[string]string{
		"source": q.Source, "type": q.Type, "destination": q.Destination, "note": q.Note, "signature": q.Signature, "q": q.Q,
		"since": q.Since, "until": q.Until, "cursor": q.Cursor,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// LettersJob returns the request of a job for the dead letters that q selects by filters.
func LettersJob(q *hookadmin.DeadLettersRequest, action string) *hookadmin.JobRequest {
	return &hookadmin.JobRequest{
		Of: driver.JobOfDeadLetters, Action: action, Rate: q.Rate,
		Filter: hookadmin.JobFilter{
			Source: q.Source, Type: q.Type, Destination: q.Destination, Note: q.Note, Signature: q.Signature, Q: q.Q,
			Since: q.Since, Until: q.Until, All: q.All,
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
func (c *Client) WorkOnDeadLetters(ctx context.Context, verb, key string, work *hookadmin.DeadLettersRequest) (*LettersWorked, error) {
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

// ReplayAllDead replays every dead letter, and returns their number.
func (c *Client) ReplayAllDead(ctx context.Context) (int, error) {
	worked, err := c.WorkOnDeadLetters(ctx, "replay", "", &hookadmin.DeadLettersRequest{All: true})
	return worked.Done, err
}

// work sends one request.
func (w *LettersWorked) work(ctx context.Context, c *Client, verb, key string, part *hookadmin.DeadLettersRequest) error {
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
func (c *Client) Undo(ctx context.Context, requestID string, progress func(*hookadmin.Job)) (*hookadmin.Undone, error) {
	var answer struct {
		hookadmin.Undone
		hookadmin.Accepted
	}
	err := c.PostBulk(ctx, api+"/dead-letters/undo", "", &hookadmin.UndoRequest{RequestID: requestID}, &answer)
	if err != nil || answer.Job == "" {
		return &answer.Undone, err
	}
	job, err := get[hookadmin.Job](ctx, c, api+"/jobs"+Path(answer.Job), nil)
	job, err = c.followJob(ctx, job, err, progress)
	switch {
	case err == nil && job.State != driver.JobDone:
		err = fmt.Errorf("%s is %s: %s", job.ID, job.State, job.LastError)
	case job == nil:
		return &answer.Undone, err
	}
	return &hookadmin.Undone{Undone: int(job.Done), Skipped: int(job.Skipped + job.Failed)}, err
}
