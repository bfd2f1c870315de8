package sqlitestore

// writeStatements are the statements of write transactions.
var writeStatements = []string{
	insertEvent, insertState, insertMessage, selectIsPaused, insertBodySeen, selectBodySeen, selectClaimed, unclaim,
	buryUsedUp, selectOldestDue, selectUntriedDue, takeLease, completeMessage, sentMessage, insertAttempt, keepSent, insertLost, releaseMessage,
	reopenState, reopenMessages, insertHistory, nextGeneration,
	selectReplayable, selectRequest, selectReplayableMessages, resetState, resetMessage, replaceMessage, insertReplayed,
	replayDeadEvent, replayDeadMessage, discardEvent, discardMessage, selectRetryable, hurryMessage,
	countDelivery, countedEvent, selectRecent, updateRecent, insertOtherBody, deleteOtherBody, deleteSuperseded, insertResponse, deleteResponses,
	selectRedacted, selectCaused, redactCaused, redactEvent, redactResponses, redactAttempts, redactMessages, redactTries, redactState,
	insertQuarantine, keepQuarantined, dropQuarantined,
	deleteEvent, deleteState, deleteAttempts, deleteMessages, deleteCount, deleteHistory, deleteBodySeen,
	deleteBody, deleteQuarantineOld, deleteQuarantineRows, deleteTries, deleteVersion, turnIsFree, takeTurn, holdTurn, renewTurn, endTurn, registerWindow, forgetWindows,
	insertDone, insertUndecided, resetDone, staleMessage, keepVersion,
	markTaken, postpone, selectRun, setBegun, undoHandlers, recordDone, recordStale, recordRetry, recordDead, releaseEvent, insertTry,
	selectLost, countLost, loseAlone, loseOther,
	selectDueAt, reopenDone, claimDone, claimStale, claimEnded, selectFailures, deleteInline, countInline, buryInline, selectInline, oldInline,
	insertEnqueued, insertEnqueuedBody, selectEnqueued,
	addRollup, addType, deleteRollups, deleteTypes, addRefused, trimRefused, deleteRefused,
	watchFeed, wantFeed, insertFeed, trimFeed, raiseFloor,
	insertJob, selectJobByRequest, selectJob, trimJobs, startJob, cancelJob, freeJob, takeJob, holdJob, stepJob, deleteJobs,
	selectDeadEvent, selectDeadMessage, selectDiscards, selectLater, undiscardEvent, undiscardMessage,
	countLearned, armSource, takeArmed, forgetLearned, keepLearned,
	pauseDestination, resumeDestination, hurryMessages,
}
