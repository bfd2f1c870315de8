package storetest

import (
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func leaseClaimCases() []testCase {
	return []testCase{
		{"OfAClaim", leaseOfAClaim},
		{"OfAClaimRunsOut", leaseOfAClaimRunsOut},
		{"OfAClaimWithAGuard", leaseOfAClaimWithAGuard},
		{"OfAPausedDestination", leaseOfAPausedDestination},
		{"OfADuplicate", leaseOfADuplicate},
	}
}

// forLease makes the claim lease its messages on these routes.
func forLease(c driver.Claim, routes ...string) driver.Claim {
	for i := range c.Messages {
		if slices.Contains(routes, c.Messages[i].Route) {
			c.Messages[i].LeaseFor = leaseFor
		}
	}
	return c
}

// claimLeased claims c at a time, checks the leases of these messages, and returns their token.
func (f *fixture) claimLeased(at time.Time, c driver.Claim, places ...int) int64 {
	f.Helper()
	got := f.claim(at, c)[0]
	var token int64
	if len(got.Leases) > 0 {
		token = got.Leases[0].Token
	}
	want := driver.ClaimResult{Claimed: true}
	for _, n := range places {
		want.Leases, want.ReceivedAt = append(want.Leases, driver.MessageLease{ID: c.Messages[n].ID, Token: token}), at
	}
	same(f, "claim", want, got)
	if len(places) > 0 && token < 1 {
		f.Errorf("token is %d, want a positive one", token)
	}
	return token
}

// leaseOfAClaim completes and releases messages under the leases of their claim.
func leaseOfAClaim(f *fixture) {
	c := forLease(newClaim("stripe", "evt_1", "\x00\xff{}", "audit", "billing", "crm"), "audit", "crm")
	token := f.claimLeased(t0, c, 0, 2)
	want := claimed(&c, t0)
	f.sameEvent(sending(sending(want, 0, t0, 1), 2, t0, 1))
	if got := f.leaseOne(t0, "to-billing"); got.Attempt != 1 {
		f.Errorf("the message without a lease: attempt %d, want 1", got.Attempt)
	}
	f.noneDue(t0.Add(leaseFor-time.Microsecond), "to-audit", "before the lease ends")

	f.mustComplete(t0.Add(time.Second), driver.Completion{ID: c.Messages[0].ID, Token: token, Outcome: driver.MessageSent, StatusCode: 200})
	f.noneDue(t0.Add(time.Hour), "to-audit", "after it was sent")
	f.release(t0.Add(time.Second), driver.MessageLease{ID: c.Messages[2].ID, Token: token})
	again := f.leaseOne(t0.Add(time.Second), "to-crm")
	if again.Attempt != 1 || again.Token <= token || again.Expired {
		f.Errorf("after the release: %+v, want the first attempt under a higher token than %d", again, token)
	}
}

// leaseOfAClaimRunsOut is a claim whose process died.
func leaseOfAClaimRunsOut(f *fixture) {
	c := forLease(newClaim("stripe", "evt_1", "{}", "billing"), "billing")
	token := f.claimLeased(t0, c, 0)
	m := f.leaseOne(t0.Add(leaseFor), "to-billing")
	if m.Attempt != 2 || !m.Expired || m.Token <= token {
		f.Errorf("leased %+v, want the second attempt after one that expired, under a higher token than %d", m, token)
	}
	late := driver.Completion{ID: m.ID, Token: token, Outcome: driver.MessageSent}
	same(f, "outcome under the old lease", []bool{false}, f.complete(t0.Add(leaseFor), late))
}

// leaseOfAClaimWithAGuard is a claim whose body is compared with others.
func leaseOfAClaimWithAGuard(f *fixture) {
	c := forLease(newClaim("stripe", "evt_1", "{}", "billing"), "billing")
	c.BodyGuard = driver.BodyRefuse
	token := f.claimLeased(t0, c, 0)
	f.mustComplete(t0, driver.Completion{ID: c.Messages[0].ID, Token: token, Outcome: driver.MessageSent})
}

func leaseOfAPausedDestination(f *fixture) {
	f.pause(t0, "to-billing")
	c := forLease(newClaim("stripe", "evt_1", "{}", "audit", "billing"), "audit", "billing")
	f.claimLeased(t0, c, 0)
	f.sameEvent(sending(claimed(&c, t0), 0, t0, 1))
}

// leaseOfADuplicate leases nothing for an event that exists.
func leaseOfADuplicate(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}", "billing"))
	c, other := forLease(newClaim("stripe", "evt_1", "{}", "billing"), "billing"), forLease(newClaim("stripe", "evt_2", "{}", "billing"), "billing")
	at := t0.Add(time.Minute)
	got := f.claim(at, c, other)
	for i, r := range got {
		if r.Claimed != (len(r.Leases) == 1) || r.Claimed == r.Duplicate {
			f.Errorf("claim %d: %+v", i, r)
		}
	}
	if m := f.leaseOne(at, "to-billing"); m.EventID != "evt_1" {
		f.Errorf("leased %+v, want the message of evt_1", m)
	}
	f.noneDue(at, "to-billing", "the message of evt_2 is leased")
}
