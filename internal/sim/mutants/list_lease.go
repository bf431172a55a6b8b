package main

const (
	lease  = "internal/lease"
	expiry = "internal/expiry"
)

// leaseMutants: how long a holder believes that it holds.
func leaseMutants() []Mutant {
	const file = lease + "/lease.go"
	return []Mutant{
		{"lease/no-margin", "G3", "without a margin a holder whose clock is 0.1 % slow stops after the leader has handed on",
			in(file, "	return max(ttl/100, 2*ttl/1000+5*time.Millisecond)\n", "	return 0 * ttl\n"),
			[]Run{{lease, "TestG3_MarginBearsTheClockError|TestG3_HolderStopsBeforeTheLeaderExpires"}, {whole, "TestG3_RatesOfClocks"}}},
		{"lease/late-acknowledgement-revives", "G3", "an acknowledgement that comes at or after the deadline revives the lease",
			in(file, "	if l.settle() == Ended {\n		return false\n	}\n	if d := int64", "	if l.cause != nil {\n		return false\n	}\n	if d := int64"),
			by(lease, "TestG3_LateAcknowledgementRevivesNothing")},
		{"lease/ended-revives", "G3", "an acknowledgement revives a lease that has ended",
			in(file, "	if l.settle() == Ended {\n		return false\n	}\n	if d := int64", "	if d := int64"),
			by(lease, "TestG3_LateAcknowledgementRevivesNothing")},
		{"lease/acknowledgement-shortens", "G8", "an acknowledgement that was overtaken shortens the lease",
			in(file, "d > l.deadline.Load() {", "d != l.deadline.Load() {"), by(lease, "TestG3_AcknowledgementsNeverShorten")},
		{"lease/lost-by-timer-only", "G3", "only a timer closes Lost, and it stands still while the machine sleeps",
			in(lease+"/hold.go", "	state := h.lease.settle()\n", "	state := Live\n	if h.lease.cause != nil {\n		state = Ended\n	}\n"), by(lease, "TestG3_LostCloses")},
		{"lease/late-grant-handed-out", "G3", "a grant that arrives at or after the deadline is handed out",
			in(file, "	switch l.settle() {\n	case Ended:\n		return nil, l.cause\n	case Suspended:\n		return nil, ErrSuspended\n	}\n	h.enter()", "	if l.cause != nil {\n		return nil, l.cause\n	}\n	h.enter()"), by(lease, "TestG3_LostCloses")},
		{"lease/dead-on-arrival", "G3", "a session whose creation took longer than its TTL is alive",
			in(file, "left > 0 {\n		l.timer", "left > -l.ttl {\n		l.timer"), by(lease, "TestG3_LateFromTheBeginning")},
		{"lease/holds-not-told", "G3", "the end of a session does not reach the locks that it holds",
			in(file, "	for l.holds != nil {\n		l.holds.end(cause)\n	}\n", "	l.holds = nil\n"), by(lease, "TestEndReachesEveryHold|TestG3_LostCloses")},
		{"lease/clock-stands-still", "G3", "the lease clock stands still while the machine sleeps: the holder of a laptop that wakes up still holds",
			in("transport/clock_linux.go", "	return monotonic + offsets.boot\n", "	return monotonic + offsets.boot - offsets.boot\n"),
			by("transport", "TestG3_ClockCountsTheSleepOfTheMachine")},
	}
}

// graceMutants: when a lease that was suspended lives again, and leases of the locks' own.
func graceMutants() []Mutant {
	const hold, grace = lease + "/hold.go", lease + "/grace.go"
	return []Mutant{
		{"lease/late-acknowledgement-ends-grace", "G3", "an acknowledgement revives a suspended lease though what it gives is over",
			in(lease+"/lease.go", "l.suspended != nil && l.left() > 0", "l.suspended != nil"), by(lease, "TestG3_RevivalIsTheSameHold")},
		{"lease/grace-acts", "G3", "a suspended holder passes its Check",
			in(hold, "	case state == Suspended:\n		return ErrSuspended\n	}\n	return nil", "	case state == Suspended:\n	}\n	return nil"), by(lease, "TestG3_SuspendedMayNotAct")},
		{"lease/grace-for-ever", "G3", "a suspended lease does not end",
			in(lease+"/lease.go", "left+l.grace <= 0", "left+l.grace <= -l.grace"), by(lease, "TestG3_GraceEnds")},
		{"lease/revived-without-timer", "G3", "a lease that was revived is only looked at when its grace period would have ended",
			in(grace, "	l.timer.Reset(wait(l.left()))", "	_ = l.timer"), by(lease, "TestG3_RevivalIsTheSameHold")},
		{"lease/contexts-outlive-suspension", "G3", "the context of a lock does not end when its session is suspended",
			in(grace, "			h.cancel(ErrSuspended)\n", ""), by(lease, "TestG3_SuspendedMayNotAct")},
		{"lease/own-lease-forgotten", "G3", "a lock's own lease is not looked at: the cell has handed it on",
			in(hold, "h.leased() && h.left() <= 0", "false && h.left() <= 0"), by(lease, "TestG3_LeaseOfItsOwn")},
		{"lease/refresh-shortens", "G8", "a refresh that was overtaken shortens a lock's own lease",
			in(hold, "d > h.apart.deadline.Load() {", "d != h.apart.deadline.Load() {"), by(lease, "TestG3_LeaseOfItsOwn")},
		{"lease/refresh-revives", "G3", "a refresh revives a lock whose own lease is over",
			in(hold, "	h.settle()\n	if h.cause.Load() != nil {\n		return false\n	}\n	if d := int64", "	if h.cause.Load() != nil {\n		return false\n	}\n	if d := int64"), by(lease, "TestG3_TheEarlierLeaseCounts")},
	}
}

// renewalMutants: what a renewal is counted from.
func renewalMutants() []Mutant {
	const file = lease + "/renewer.go"
	return []Mutant{
		{"lease/counts-from-the-answer", "G3", "a renewal counts from its answer and not from its send: the leader's time is up before the holder's",
			in(file, "		case s.lease.Renewed(m.sent) && m.sent > s.acked:\n", "		case s.lease.Renewed(r.now()) && m.sent > s.acked:\n"),
			by(lease, "TestG3_RenewalCountsFromItsSend")},
		{"lease/no-answer-renews", "G3", "a session about which the cell says nothing counts as renewed",
			in(file, "		case named:\n", "		case named && s == nil:\n"), by(lease, "TestRenewerAppliesTheAnswer")},
		{"lease/dead-not-told", "G3", "a session that the cell knows to be dead goes on",
			in(file, "		refused[id] = ErrExpired\n", "		refused[id] = nil\n"), by(lease, "TestRenewerAppliesTheAnswer")},
		{"lease/creation-counts-from-the-retry", "G3", "a session counts from the attempt that was answered: the leader counts from the first one",
			[]Edit{
				{caller + "/submit.go", "			if r.attempts == 0 && r.leaving != nil {\n", "			if r.leaving != nil {\n"},
				{caller + "/session.go", "			timer = time.AfterFunc(o.TTL, func() { close(late) })\n", "			if timer == nil {\n				timer = time.AfterFunc(o.TTL, func() { close(late) })\n			}\n"},
			}, by(directed, "TestG3_DirectedRetriedCreationCountsFromTheFirstAttempt")},
		{"lease/stuck-renewal-blocks", "G8", "a renewal that is not answered keeps the next one from being sent",
			in(file, "	r.inFlight[0].cancel()\n	return false\n", "	return false\n"), by(lease, "TestRenewerIsNotHeldUpByAStuckSend")},
	}
}

// expiryMutants: when the leader ends a session.
func expiryMutants() []Mutant {
	return []Mutant{
		{"expiry/timers-not-reset", "G3 G8", "a new leader counts three quarters of everybody's TTL as over, though earlier leaders may have acknowledged renewals since",
			in(expiry+"/table.go", "		t.open(id, ttl, now)\n", "		t.open(id, ttl, now-3*ttl/4)\n"), by(expiry, "TestG8_ExpiresATTLAfterTheTermStart")},
		{"expiry/no-term-check", "G3 G8", "an end that was decided in an earlier term takes effect, though later leaders have acknowledged renewals",
			in("fsm/session.go", "	if c.Term != st.entryTerm {\n		return\n	}\n", ""), []Run{{"fsm", "TestStories/term_check.*"}, {server, "TestG3_GraceRevivedDespiteTheEndOfAnEarlierTerm"}}},
		{"expiry/no-mark", "G8", "a session is acknowledged while its end is under way",
			[]Edit{
				{expiry + "/expire.go", "		delete(t.live, s.id)\n		t.expiring", "		t.expiring"},
				{expiry + "/table.go", "	return marked\n", "	return marked && t == nil\n"},
			}, []Run{{expiry, "TestG8_MarkedBeforeProposedAndNeverAcknowledgedAgain"}, {server, "TestG3_GraceNotRevivedWhileItsEndIsProposed"}}},
		{"expiry/marked-after-proposing", "G8", "a session is marked when its end has been answered",
			in(expiry+"/expire.go", "		delete(t.live, s.id)\n		t.expiring[s.id] = struct{}{}\n	}\n", `		t.expiring[s.id] = struct{}{}
		time.AfterFunc(time.Millisecond, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.live, s.id)
		})
	}
`), by(expiry, "TestG8_MarkedBeforeProposedAndNeverAcknowledgedAgain")},
		{"expiry/without-evidence", "G8", "a leader without a majority, which can acknowledge nobody, ends everybody",
			in(expiry+"/expire.go", "	if err := t.cfg.Evidence(ctx, term); err != nil {\n", "	if err := ctx.Err(); err != nil {\n"), by(expiry, "TestG8_NobodyExpiresWithoutAQuorum")},
		{"expiry/renewed-meanwhile", "G8", "a session that was renewed while the leader waited for evidence is ended",
			in(expiry+"/expire.go", "		if deadline := t.deadline(s); deadline > now {\n			t.wheel.file(s, deadline)\n			continue\n		}\n		delete", "		_ = now\n		delete"),
			by(expiry, "TestG8_RenewedWhileTheLeaderWaitsForEvidence")},
		{"expiry/proposed-once", "G8", "an end whose proposal failed is not proposed again: the session never ends",
			in(expiry+"/expire.go", " || len(t.expiring) > 0\n", "\n"), by(expiry, "TestG8_AnEndIsProposedUntilItIsApplied")},
		{"expiry/any-number", "G3 G8", "a renewal that was overtaken or doubled lengthens the session's life",
			in(expiry+"/table.go", "	if s == nil || number <= s.number {\n", "	if s == nil {\n"), by(expiry, "TestRenewalNumbersRise")},
		{"expiry/old-round-in-a-new-term", "G3 G8", "what an old term has under way when a new one starts marks the new one's sessions",
			in(expiry+"/expire.go", "	if ctx.Err() != nil {\n		return nil\n	}\n	now := t.look()\n	if t.pauses", "	now := t.look()\n	if t.pauses"),
			by(expiry, "TestG8_EvidenceOfAnOldTermDoesNotCount")},
		{"expiry/opened-late", "G8", "a session that is opened while the leader leads never expires",
			in(server+"/leader.go", "		s.expiry.Opened(e.Session, time.Duration(e.TTL))\n", "		_ = e\n"), by(".", "TestG8_NotRenewedExpires")},
	}
}

// pauseMutants: a leader whose process stood still.
func pauseMutants() []Mutant {
	return []Mutant{
		{"expiry/no-pause-guard", "G8", "a leader that wakes up ends everybody whose renewals wait in its sockets",
			in(expiry+"/pause.go", "gap > max(minPause, p.shortest/10) {", "gap < 0 {"), by(expiry, "TestG8_APauseOfTheLeaderCountsForNobody")},
		{"expiry/evidence-from-before-a-pause", "G8", "evidence from before a pause lets the leader end sessions after it",
			in(expiry+"/expire.go", "	if t.pauses.count != pauses {\n		return nil\n	}\n", ""), by(expiry, "TestG8_EvidenceFromBeforeAPauseDoesNotCount")},
		{"expiry/pauses-add-up", "G8", "a leader that pauses all the time keeps the dead for ever",
			in(expiry+"/pause.go", "d+min(paused, ttl)", "d+paused"), by(expiry, "TestG8_ALeaderThatPausesAllTheTimeDoesNotKeepTheDead")},
		{"expiry/clock-looked-at-seldom", "G8", "only the loop that waits for the disk looks at the clock, so that a slow disk passes for a pause",
			in(expiry+"/table.go", "	t.terms.Go(func() { t.watchClock(ctx) })\n", ""), by(expiry, "TestG8_.*")},
	}
}
