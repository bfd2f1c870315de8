package probe

import (
	"context"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
)

// Page returns the address of the page that explains every check, under an anchor with its name.
func Page() string { return build.Page("five-minute-test.md") }

// check is one check. Its texts are for people; the name is stable.
type check struct {
	name, title    string
	sent, why, fix string
	refuses        bool // a pass is a refusal
	plan           func(p *probe) plan
}

// plan is a check with its requests made. It tells without a request whether the check applies.
type plan struct {
	left string // why the check does not apply; "" if it does
	talk func(ctx context.Context) outcome
}

// always makes the plan of a check that applies to every provider.
func always(run func(ctx context.Context, p *probe) outcome) func(*probe) plan {
	return func(p *probe) plan { return talk(func(ctx context.Context) outcome { return run(ctx, p) }) }
}

func talk(run func(ctx context.Context) outcome) plan { return plan{talk: run} }

// leftOut is the plan of a check that does not apply.
func leftOut(why string) plan { return plan{left: why} }

// unmade is the plan of a check without requests, because they cannot be made.
func unmade(err error) plan {
	return talk(func(context.Context) outcome { return unknown(err.Error()) })
}

const validName = "valid"

// checks holds all checks in their order. The one of a valid event is the first. The answer time is
// the last, because its events may leave work behind that delays the effects of others.
var checks = []check{
	{
		name: validName, title: "valid event", plan: always(runValid),
		sent: "one event, signed as the provider signs it",
		why:  "All other checks compare with this answer.",
		fix:  "Verify the signature over the raw body, and answer 2xx once the event is stored",
	},
	{
		name: "tampered", title: "tampered byte", refuses: true, plan: planTampered,
		sent: "an event with one byte changed after signing",
		why:  "Anyone who sees one delivery can make others of it.",
		fix:  "Compare the signature with that of the received bytes, and answer 401 or 400",
	},
	{
		name: "wrong-secret", title: "wrong secret", refuses: true, plan: planWrongSecret,
		sent: "an event signed with another secret",
		why:  "Anyone can send events to this endpoint.",
		fix:  "Verify each signature with your secret before anything else, and answer 401 or 400",
	},
	{
		name: "no-signature", title: "missing signature", refuses: true, plan: planNoSignature,
		sent: "an event without its signature",
		why:  "Anyone can send events to this endpoint.",
		fix:  "Refuse a request without a signature with 401 or 400; an absent header must not skip the check",
	},
	{
		name: "old", title: "signed an hour ago", refuses: true, plan: planOld,
		sent: "an event signed an hour ago",
		why:  "A recorded delivery can be sent again at any later time.",
		fix:  "Refuse a signed time that is more than a few minutes old with 401 or 400",
	},
	{
		name: "future", title: "signed an hour ahead", refuses: true, plan: planFuture,
		sent: "an event signed an hour ahead",
		why:  "A time from the future stays within the window for as long as it is ahead.",
		fix:  "Compare the absolute difference of the signed time with the window, and answer 401 or 400",
	},
	{
		name: "several-signatures", title: "several signatures", plan: planSeveral,
		sent: "two events with two signatures each: the right one last, and first",
		why:  "While a secret is replaced, a delivery carries a signature for each secret. It would be refused.",
		fix:  "Accept a delivery if any of its signatures is right",
	},
	{
		name: "raw-body", title: "unusual formatting", plan: planRawBody,
		sent: "an event with spaces, escapes and large numbers, and one with a space added after signing",
		why:  "The signature is over the sent bytes. A parsed and rewritten body has others.",
		fix:  "Verify the raw body before a framework parses it",
	},
	{
		name: "duplicate", title: "duplicate in sequence", plan: always(runDuplicate),
		sent: "one event, three times in sequence",
		why:  "Every provider delivers some events again. Any answer but 2xx makes it go on.",
		fix:  "Answer 2xx to an event that was stored before, and do not work on it again",
	},
	{
		name: "race", title: "20 copies at once", plan: always(runRace),
		sent: "one event, 20 times at the same moment",
		why:  "Two requests both looked before either wrote.",
		fix:  "Insert the id first, under a unique key, in the transaction of the work",
	},
	{
		name: "after-failure", title: "duplicate after failure", plan: always(runAfterFailure),
		sent: "events whose connection is cut after the request was sent, then the same events again",
		why:  "The first attempt may stop anywhere between the id and the work.",
		fix:  "Store the id and the work in one transaction, so that a failed attempt leaves neither",
	},
	{
		name: "other-body", title: "same id, other body", plan: planOtherBody,
		sent: "one event twice, the second time with one more field",
		why:  "Senders change details between attempts, so a hash of the body is not the event's identity.",
		fix:  "Take the provider's event id as the key, not a hash of the body",
	},
	{
		name: "same-body", title: "other id, same body", plan: planSameBody,
		sent: "two events with different ids and equal bodies",
		why:  "Two events may say the same. A hash of the body drops the second one.",
		fix:  "Take the provider's event id as the key, not a hash of the body",
	},
	{
		name: "malformed", title: "malformed body", plan: planMalformed,
		sent: "a body that is cut off, rightly signed",
		why:  "A 5xx makes the sender deliver for days. An effect of half an event is wrong.",
		fix:  "Answer 400 to a body that cannot be read, or store it for a person and answer 2xx",
	},
	{
		name: "oversized", title: "body of 4 MiB", plan: planOversized,
		sent: "a body of 4 MiB, with its length declared and rightly signed",
		why:  "A few large bodies at once fill the memory.",
		fix:  "Limit the body, such as to 1 MiB, and answer 413 before you read it",
	},
	{
		name: "slow-body", title: "slow body", plan: always(runSlowBody),
		sent: "five events while ten other requests stop in the middle of their bodies",
		why:  "A few slow clients keep all others out.",
		fix:  "Read bodies without holding a worker, behind a proxy that buffers or with a time-out",
	},
	{
		name: "restart", title: "duplicate after a restart", plan: planRestart,
		sent: "one event, another one just before --restart, then the first one again",
		why:  "Senders deliver again for days. A set of ids in memory is gone with the process.",
		fix:  "Keep the ids in the database, longer than the sender retries",
	},
	{
		name: "own-trouble", title: "trouble of its own", plan: planOwnTrouble,
		sent: "one event after --break, then --mend, then the same event again",
		why:  "A 4xx blames the sender. Many stop then, and the event is lost.",
		fix:  "Answer 503 if your own database or service fails, and undo the id together with the work",
	},
	{
		name: "answer-time", title: "answer time, 10 senders", plan: always(runAnswerTime),
		sent: "100 events from 10 parallel senders",
		why:  "A sender gives up after its time-out and delivers again, which makes the load worse.",
		fix:  "Store the event and answer; do the slow work afterwards",
	},
}

// Names returns the names of all checks, in their order.
func Names() []string {
	var names []string
	for i := range checks {
		names = append(names, checks[i].name)
	}
	return names
}
