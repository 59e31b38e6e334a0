//! Limits the number of open connections of each client and of each site, so that one party cannot
//! use all connections of the server.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use latchmail_core::network::{network, site};

/// The limit of a site divided by the limit of a client network.
const SITE_FACTOR: usize = 4;

/// The number of open connections of each client network and each site (IPv6 /48, IPv4 /24).
#[derive(Debug)]
pub(crate) struct ClientConnections {
    limit: usize,
    open: Mutex<Open>,
}

/// The numbers of open connections. Networks and sites without a connection have no entry.
#[derive(Debug, Default)]
struct Open {
    networks: HashMap<IpAddr, usize>,
    sites: HashMap<IpAddr, usize>,
}

/// A permit for one connection. Dropping this value releases the permit.
#[derive(Debug)]
#[must_use = "dropping the permit releases it"]
pub(crate) struct ConnectionPermit {
    connections: Arc<ClientConnections>,
    client: IpAddr,
}

impl ClientConnections {
    /// Creates a limiter that allows `limit` open connections per client network, and four times as
    /// many per site.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            open: Mutex::default(),
        })
    }

    /// Returns a permit for a connection from `client`. Returns `None` if the client's network or
    /// site has reached its limit.
    pub(crate) fn try_acquire(self: &Arc<Self>, client: IpAddr) -> Option<ConnectionPermit> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (network, site) = (network(client), site(client));
        let count = |counts: &HashMap<IpAddr, usize>, key| counts.get(key).copied().unwrap_or(0);
        if count(&open.networks, &network) >= self.limit
            || count(&open.sites, &site) >= self.limit.saturating_mul(SITE_FACTOR)
        {
            return None;
        }
        *open.networks.entry(network).or_default() += 1;
        *open.sites.entry(site).or_default() += 1;
        Some(ConnectionPermit {
            connections: Arc::clone(self),
            client,
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let open = self.connections.open.lock();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        release(&mut open.networks, network(self.client));
        release(&mut open.sites, site(self.client));
    }
}

fn release(counts: &mut HashMap<IpAddr, usize>, key: IpAddr) {
    if let Entry::Occupied(mut entry) = counts.entry(key) {
        if *entry.get() > 1 {
            *entry.get_mut() -= 1;
        } else {
            entry.remove();
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
    fn the_networks_of_a_site_have_a_common_limit() {
        let connections = ClientConnections::new(2);
        let in_site = |network: usize| format!("2001:db8:1:{network}::1");
        let permits: Vec<_> = (0..100)
            .map_while(|network| try_acquire(&connections, &in_site(network)))
            .collect();
        assert_eq!(permits.len(), 2 * SITE_FACTOR);
        assert!(try_acquire(&connections, "2001:db8:2::1").is_some());
        drop(permits);
        assert!(try_acquire(&connections, &in_site(1)).is_some());
    }

    #[test]
    fn clients_without_connections_use_no_memory() {
        let connections = ClientConnections::new(2);
        for client in 0..100_u32 {
            let _first = connections.try_acquire(IpAddr::from(client.to_be_bytes()));
            let _second = connections.try_acquire(IpAddr::from(client.to_be_bytes()));
        }
        let open = connections.open.lock().unwrap();
        assert!(open.networks.is_empty() && open.sites.is_empty());
    }
}
