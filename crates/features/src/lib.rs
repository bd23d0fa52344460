//! Bars become the table: indicators, timeframes, labels, samples, their streaming twin, and the tests that hunt for leaks.
