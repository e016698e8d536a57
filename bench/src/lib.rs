//! micro-benchmarks and measurements of the bounds.
