//! integration, conformance and fault tests; the checker; the explorer.
