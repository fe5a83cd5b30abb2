package frame

// The tx class: transactions of a channel.

// ClassTx is the id of the tx class.
const ClassTx = 90

// TxSelect is tx.select: it turns the channel transactional.
type TxSelect struct{}

// ClassID is 90.
func (*TxSelect) ClassID() uint16 { return ClassTx }

// MethodID is 10.
func (*TxSelect) MethodID() uint16 { return 10 }

// Name is "tx.select".
func (*TxSelect) Name() string { return "tx.select" }

func (*TxSelect) wire(*coder) {}

// TxSelectOk is tx.select-ok: it says that the channel is transactional.
type TxSelectOk struct{}

// ClassID is 90.
func (*TxSelectOk) ClassID() uint16 { return ClassTx }

// MethodID is 11.
func (*TxSelectOk) MethodID() uint16 { return 11 }

// Name is "tx.select-ok".
func (*TxSelectOk) Name() string { return "tx.select-ok" }

func (*TxSelectOk) wire(*coder) {}

// TxCommit is tx.commit: it commits the publishes and acks since the last commit or rollback.
type TxCommit struct{}

// ClassID is 90.
func (*TxCommit) ClassID() uint16 { return ClassTx }

// MethodID is 20.
func (*TxCommit) MethodID() uint16 { return 20 }

// Name is "tx.commit".
func (*TxCommit) Name() string { return "tx.commit" }

func (*TxCommit) wire(*coder) {}

// TxCommitOk is tx.commit-ok: it confirms a commit.
type TxCommitOk struct{}

// ClassID is 90.
func (*TxCommitOk) ClassID() uint16 { return ClassTx }

// MethodID is 21.
func (*TxCommitOk) MethodID() uint16 { return 21 }

// Name is "tx.commit-ok".
func (*TxCommitOk) Name() string { return "tx.commit-ok" }

func (*TxCommitOk) wire(*coder) {}

// TxRollback is tx.rollback: it drops the publishes and acks since the last commit or rollback.
type TxRollback struct{}

// ClassID is 90.
func (*TxRollback) ClassID() uint16 { return ClassTx }

// MethodID is 30.
func (*TxRollback) MethodID() uint16 { return 30 }

// Name is "tx.rollback".
func (*TxRollback) Name() string { return "tx.rollback" }

func (*TxRollback) wire(*coder) {}

// TxRollbackOk is tx.rollback-ok: it confirms a rollback.
type TxRollbackOk struct{}

// ClassID is 90.
func (*TxRollbackOk) ClassID() uint16 { return ClassTx }

// MethodID is 31.
func (*TxRollbackOk) MethodID() uint16 { return 31 }

// Name is "tx.rollback-ok".
func (*TxRollbackOk) Name() string { return "tx.rollback-ok" }

func (*TxRollbackOk) wire(*coder) {}
