//! The ledger: every trial is written when it starts (METHOD.md C7).
