package sqlitestore

// writeStatements are the statements of write transactions.
var writeStatements = []string{
	insertEvent, insertState, insertMessage, insertBodySeen, selectBodySeen, selectClaimed,
	buryUsedUp, selectDue, takeLease, completeMessage, insertAttempt, releaseMessage,
	reopenState, reopenMessages, countDelivery, insertQuarantine,
	deleteEvent, deleteState, deleteAttempts, deleteMessages, deleteCount, deleteBodySeen,
	deleteBody, deleteQuarantineOld, deleteQuarantineRows,
}
