//! Estimators and verdicts: functions of a record.
