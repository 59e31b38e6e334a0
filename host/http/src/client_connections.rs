//! Limits the number of open connections of each client, so that one client cannot use all connections of the server.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use latchmail_core::network::network;

/// The number of open connections of each client network. Networks without a connection have no entry.
#[derive(Debug)]
pub(crate) struct ClientConnections {
    limit: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A permit for one connection. Dropping this value releases the permit.
#[derive(Debug)]
#[must_use = "dropping the permit releases it"]
pub(crate) struct ConnectionPermit {
    connections: Arc<ClientConnections>,
    network: IpAddr,
}

impl ClientConnections {
    /// Creates a limiter that allows `limit` open connections per client network.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            open: Mutex::default(),
        })
    }

    /// Returns a permit for a connection from `client`. Returns `None` if the client's network has reached the limit.
    pub(crate) fn try_acquire(self: &Arc<Self>, client: IpAddr) -> Option<ConnectionPermit> {
        let network = network(client);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.get(&network).copied().unwrap_or_default();
        if count >= self.limit {
            return None;
        }
        open.insert(network, count + 1);
        Some(ConnectionPermit {
            connections: Arc::clone(self),
            network,
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self
            .connections
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = open.entry(self.network) {
            if *entry.get() > 1 {
                *entry.get_mut() -= 1;
            } else {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_acquire(connections: &Arc<ClientConnections>, client: &str) -> Option<ConnectionPermit> {
        connections.try_acquire(client.parse().unwrap())
    }

    #[test]
    fn each_client_has_its_own_limit() {
        let connections = ClientConnections::new(2);
        let first = try_acquire(&connections, "192.0.2.1");
        let second = try_acquire(&connections, "::ffff:192.0.2.1");
        assert!(first.is_some() && second.is_some());
        assert!(try_acquire(&connections, "192.0.2.1").is_none());
        assert!(try_acquire(&connections, "192.0.2.2").is_some());
        drop(first);
        assert!(try_acquire(&connections, "192.0.2.1").is_some());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_client() {
        let connections = ClientConnections::new(1);
        let permit = try_acquire(&connections, "2001:db8:1:2::1");
        assert!(permit.is_some());
        assert!(try_acquire(&connections, "2001:db8:1:2:ffff::9").is_none());
        assert!(try_acquire(&connections, "2001:db8:1:3::1").is_some());
    }

    #[test]
    fn clients_without_connections_use_no_memory() {
        let connections = ClientConnections::new(2);
        for client in 0..100_u32 {
            let _first = connections.try_acquire(IpAddr::from(client.to_be_bytes()));
            let _second = connections.try_acquire(IpAddr::from(client.to_be_bytes()));
        }
        assert!(connections.open.lock().unwrap().is_empty());
    }
}
