//! Connections by peer, so that one client cannot take them all. Which peers are proxies, whose connections are many clients', is
//! not decided here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::network;

/// The open connections of every peer. It remembers those that have one, so no more than there are connections.
#[derive(Debug)]
pub(super) struct Peers {
    cap: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of a peer, for as long as it is held.
#[derive(Debug)]
#[must_use = "a connection that is not held is not counted"]
pub(super) struct Place {
    peers: Arc<Peers>,
    peer: IpAddr,
}

impl Peers {
    /// Nobody is connected; everybody may have `cap` connections at a time.
    pub(super) fn new(cap: usize) -> Arc<Self> {
        Arc::new(Self {
            cap,
            open: Mutex::default(),
        })
    }

    /// A place for a connection of `address`; none where its network has all that it may have.
    pub(super) fn place(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
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
