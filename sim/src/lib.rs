//! a simulated kube-apiserver: the upstream of weir dev and of tests.
