//! Limits the connections of each peer, so that one client cannot use all of them. The caller must not count connections of proxies, which serve many clients.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use latchmail_core::network::network;

/// The number of open connections of each peer. Peers without a connection are removed.
#[derive(Debug)]
pub(crate) struct Peers {
    cap: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A permit for one connection of a peer. Dropping it releases the permit.
#[derive(Debug)]
#[must_use = "a connection that is not held is not counted"]
pub(crate) struct Place {
    peers: Arc<Peers>,
    peer: IpAddr,
}

impl Peers {
    /// Creates the limit: each peer can have `cap` connections at a time.
    pub(crate) fn new(cap: usize) -> Arc<Self> {
        Arc::new(Self {
            cap,
            open: Mutex::default(),
        })
    }

    /// Returns a permit for a connection from `address`, or `None` if the client's network has reached its limit.
    pub(crate) fn place(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let peer = network(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = open.get(&peer).copied().unwrap_or_default();
        if taken >= self.cap {
            return None;
        }
        open.insert(peer, taken + 1);
        Some(Place {
            peers: Arc::clone(self),
            peer,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self
            .peers
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = open.entry(self.peer) {
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

    fn place(peers: &Arc<Peers>, address: &str) -> Option<Place> {
        peers.place(address.parse().unwrap())
    }

    #[test]
    fn a_peer_has_its_places_and_leaves_the_others_theirs() {
        let peers = Peers::new(2);
        let first = place(&peers, "192.0.2.1");
        let second = place(&peers, "::ffff:192.0.2.1");
        assert!(first.is_some() && second.is_some());
        assert!(place(&peers, "192.0.2.1").is_none());
        assert!(place(&peers, "192.0.2.2").is_some());
        drop(first);
        assert!(place(&peers, "192.0.2.1").is_some());
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let peers = Peers::new(1);
        let held = place(&peers, "2001:db8:1:2::1");
        assert!(held.is_some());
        assert!(place(&peers, "2001:db8:1:2:ffff::9").is_none());
        assert!(place(&peers, "2001:db8:1:3::1").is_some());
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let peers = Peers::new(2);
        for client in 0..100_u32 {
            let _place = peers.place(IpAddr::from(client.to_be_bytes()));
            let _second = peers.place(IpAddr::from(client.to_be_bytes()));
        }
        assert!(peers.open.lock().unwrap().is_empty());
    }
}
