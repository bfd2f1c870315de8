package adminclient

import (
	"context"
	"errors"
	"net/url"
	"slices"

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

// LettersWorked counts the outcomes of work on dead letters.
type LettersWorked struct {
	Done, Passed int
	Complete     bool
	// Next is the cursor that continues interrupted work; "" if there is none.
	Next string
}

// Shape returns the result as the API prints it; verb is "replay" or "discard".
func (w *LettersWorked) Shape(verb string) *hookadmin.Worked {
	shape := &hookadmin.Worked{Passed: w.Passed, Complete: w.Complete, Next: w.Next}
	if verb == "replay" {
		shape.Replayed = &w.Done
	} else {
		shape.Discarded = &w.Done
	}
	return shape
}

// WorkOnDeadLetters replays or discards dead letters; verb is "replay" or "discard". It sends as many
// requests as the work needs. If it fails, or ctx ends, the result still counts the answered part.
func (c *Client) WorkOnDeadLetters(ctx context.Context, verb string, work *DeadLetterWork) (*LettersWorked, error) {
	result := &LettersWorked{Next: work.Cursor}
	part := *work
	if len(work.IDs) <= maxIDs {
		return result, result.work(ctx, c, verb, &part)
	}
	for ids := range slices.Chunk(work.IDs, maxIDs) {
		part.IDs = ids
		if err := result.work(ctx, c, verb, &part); err != nil {
			return result, err
		}
	}
	return result, nil
}

// work sends part, and continues it until it is complete.
func (w *LettersWorked) work(ctx context.Context, c *Client, verb string, part *DeadLetterWork) error {
	for {
		answer := new(hookadmin.Worked)
		if err := c.PostBulk(ctx, api+"/dead-letters/"+verb, "", part, answer); err != nil {
			return err
		}
		for _, done := range []*int{answer.Replayed, answer.Discarded} {
			if done != nil {
				w.Done += *done
			}
		}
		w.Passed += answer.Passed
		w.Complete, w.Next, part.Cursor = answer.Complete, answer.Next, answer.Next
		switch {
		case w.Complete:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case w.Next == "":
			return errors.New("the time for one request ran out")
		}
	}
}
