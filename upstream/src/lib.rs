//! how weir reaches kube-apiserver: kubeconfig and credentials, instances, connections.
