//! A DNS server on loopback, by UDP and TCP, with the records of a test. hickory-server writes the
//! responses, and truncates those too large for UDP.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::proto::op::{Header, HeaderCounts, Metadata, ResponseCode};
use hickory_server::proto::rr::rdata::{A, AAAA, CNAME, MX, NS, SOA, TXT};
use hickory_server::proto::rr::{Name, RData, Record, RecordType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use tokio::net::{TcpListener, UdpSocket};

/// The maximum number of CNAME records that a resolver follows in one response.
const MAX_ALIASES: usize = 16;

/// A DNS server with its records. It stops when it is dropped.
pub struct Nameserver {
    /// The address on which it listens.
    pub address: SocketAddr,
    published: Published,
    _server: Server<Handler>,
    /// A socket that is bound but not read, if the server responds by TCP only.
    _silent: Option<UdpSocket>,
}

/// Records by name, in lower case.
type Published = Arc<Mutex<HashMap<String, Zone>>>;

#[derive(Default)]
struct Zone {
    records: Vec<RData>,
    answer: Behaviour,
    asked: usize,
    /// The number of queries by TCP.
    by_tcp: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Behaviour {
    #[default]
    Records,
    Code(ResponseCode),
    Referral,
    Silence,
}

impl Nameserver {
    /// Starts a server without records. For a CNAME it returns only that record, like an
    /// authoritative server whose CNAME target is in another zone. The client must follow the
    /// CNAME.
    pub async fn start() -> Self {
        Self::of(false, true).await
    }

    /// Starts a server that never responds by UDP, as behind a firewall that drops UDP.
    pub async fn by_tcp_only() -> Self {
        Self::of(false, false).await
    }

    /// Starts a server that follows CNAME records, as resolvers do.
    pub async fn resolver() -> Self {
        Self::of(true, true).await
    }

    async fn of(follows: bool, by_udp: bool) -> Self {
        let published = Published::default();
        let mut server = Server::new(Handler {
            published: Arc::clone(&published),
            follows,
        });
        let (udp, tcp) = sockets().await;
        let address = udp.local_addr().expect("a socket has an address");
        let mut silent = Some(udp);
        if by_udp && let Some(udp) = silent.take() {
            server.register_socket(udp);
        }
        server.register_listener(tcp, Duration::from_secs(5), 128);
        Self {
            address,
            published,
            _server: server,
            _silent: silent,
        }
    }

    fn at<T>(&self, name: &str, change: impl FnOnce(&mut Zone) -> T) -> T {
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        change(published.entry(name.to_lowercase()).or_default())
    }

    fn publish(&self, name: &str, records: Vec<RData>) {
        self.at(name, |zone| {
            zone.records = records;
            zone.answer = Behaviour::Records;
        });
    }

    /// Publishes one TXT record of some strings, and removes other records of the name.
    pub fn txt(&self, name: &str, strings: &[&str]) {
        let strings = strings.iter().map(ToString::to_string).collect();
        self.publish(name, vec![RData::TXT(TXT::new(strings))]);
    }

    /// Publishes TXT records of one string each.
    pub fn txts(&self, name: &str, all: &[&str]) {
        let one = |text: &&str| RData::TXT(TXT::new(vec![(*text).to_owned()]));
        self.publish(name, all.iter().map(one).collect());
    }

    /// Publishes an MX record.
    pub fn mx(&self, name: &str, host: &str) {
        self.publish(name, vec![RData::MX(MX::new(10, fqdn(host)))]);
    }

    /// Publishes one A record and nothing else.
    pub fn a(&self, name: &str) {
        self.publish(name, vec![RData::A(A(Ipv4Addr::LOCALHOST))]);
    }

    /// Publishes IPv4 and IPv6 addresses.
    pub fn addresses(&self, name: &str, addresses: &[IpAddr]) {
        let record = |address: &IpAddr| match address {
            IpAddr::V4(v4) => RData::A(A(*v4)),
            IpAddr::V6(v6) => RData::AAAA(AAAA(*v6)),
        };
        self.publish(name, addresses.iter().map(record).collect());
    }

    /// Publishes a CNAME record.
    pub fn cname(&self, name: &str, to: &str) {
        self.publish(name, vec![RData::CNAME(CNAME(fqdn(to)))]);
    }

    /// Adds an MX record to the records of a name.
    pub fn also_mx(&self, name: &str, host: &str) {
        self.at(name, |zone| {
            zone.records.push(RData::MX(MX::new(10, fqdn(host))));
        });
    }

    /// Adds an A record to the records of a name.
    pub fn also_a(&self, name: &str) {
        let address = RData::A(A(Ipv4Addr::LOCALHOST));
        self.at(name, |zone| zone.records.push(address));
    }

    /// Responds SERVFAIL for the name.
    pub fn servfail(&self, name: &str) {
        self.at(name, |zone| {
            zone.answer = Behaviour::Code(ResponseCode::ServFail);
        });
    }

    /// Responds with this code for the name.
    pub fn code(&self, name: &str, code: ResponseCode) {
        self.at(name, |zone| zone.answer = Behaviour::Code(code));
    }

    /// Responds with a referral for the name, as an authoritative server does.
    pub fn refer(&self, name: &str) {
        self.at(name, |zone| zone.answer = Behaviour::Referral);
    }

    /// Responds REFUSED for the name.
    pub fn refused(&self, name: &str) {
        self.at(name, |zone| {
            zone.answer = Behaviour::Code(ResponseCode::Refused);
        });
    }

    /// Never responds for the name.
    pub fn silent(&self, name: &str) {
        self.at(name, |zone| zone.answer = Behaviour::Silence);
    }

    /// Removes all records.
    pub fn clear(&self) {
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for zone in published.values_mut() {
            zone.records.clear();
            zone.answer = Behaviour::Records;
        }
    }

    /// Returns the number of queries for a name.
    pub fn queries(&self, name: &str) -> usize {
        self.at(name, |zone| zone.asked)
    }

    /// Returns the number of queries for a name by TCP.
    pub fn tcp_queries(&self, name: &str) -> usize {
        self.at(name, |zone| zone.by_tcp)
    }
}

impl std::fmt::Debug for Nameserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nameserver")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Binds UDP and TCP on the same port, as clients expect.
async fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let address = udp.local_addr().expect("a socket has an address");
        if let Ok(tcp) = TcpListener::bind(address).await {
            return (udp, tcp);
        }
    }
}

fn fqdn(name: &str) -> Name {
    Name::from_str(&format!("{name}.")).expect("a name")
}

struct Handler {
    published: Published,
    follows: bool,
}

impl Handler {
    /// Returns the response for a name and a query type: records, each with its owner, of the name
    /// and of the targets of its alias.
    fn answer(
        &self,
        asked: &str,
        kind: RecordType,
        by: Protocol,
    ) -> (Behaviour, Vec<(String, RData)>) {
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut name = asked.to_owned();
        let mut records = Vec::new();
        for _ in 0..MAX_ALIASES {
            let zone = published.entry(name.clone()).or_default();
            zone.asked += 1;
            zone.by_tcp += usize::from(by == Protocol::Tcp);
            if zone.answer != Behaviour::Records {
                return (zone.answer, records);
            }
            if zone.records.is_empty() {
                return (Behaviour::Code(ResponseCode::NXDomain), records);
            }
            let matches = |data: &&RData| [kind, RecordType::CNAME].contains(&data.record_type());
            let matching = zone.records.iter().filter(matches).cloned();
            records.extend(matching.map(|data| (name.clone(), data)));
            match zone.records.first() {
                Some(RData::CNAME(CNAME(target))) if self.follows && kind != RecordType::CNAME => {
                    name = written(target);
                }
                _ => return (Behaviour::Records, records),
            }
        }
        (Behaviour::Code(ResponseCode::ServFail), Vec::new())
    }
}

/// Returns the name in the form that tests use.
fn written(name: &Name) -> String {
    name.to_string().trim_end_matches('.').to_lowercase()
}

/// Returns the SOA record of a negative response (RFC 2308, section 3).
fn authority() -> Record {
    let soa = SOA::new(
        fqdn("ns.example"),
        fqdn("admin.example"),
        1,
        3600,
        600,
        86400,
        60,
    );
    Record::from_rdata(fqdn("example"), 60, RData::SOA(soa))
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut response: R,
    ) -> ResponseInfo {
        let mut metadata = Metadata::response_from_request(&request.metadata);
        metadata.authoritative = true;
        let silence = move || {
            ResponseInfo::from(Header {
                metadata,
                counts: HeaderCounts::default(),
            })
        };
        let Some(query) = request.queries.queries().first() else {
            return silence();
        };
        let name = written(&Name::from(query.name().clone()));
        let (answer, records) = self.answer(&name, query.query_type(), request.protocol());
        let records: Vec<Record> = records
            .into_iter()
            .map(|(name, data)| Record::from_rdata(fqdn(&name), 60, data))
            .collect();
        let mut referral = None;
        let mut negative = records.is_empty();
        match answer {
            Behaviour::Silence => return silence(),
            Behaviour::Records => {}
            Behaviour::Code(code) => {
                metadata.response_code = code;
                negative = code == ResponseCode::NXDomain;
            }
            Behaviour::Referral => {
                negative = false;
                let other = RData::NS(NS(fqdn("ns.elsewhere.example")));
                referral = Some(Record::from_rdata(fqdn("example"), 60, other));
            }
        }
        let soa = negative.then(authority);
        let message = MessageResponseBuilder::from_message_request(request).build(
            metadata,
            &records,
            &referral,
            &soa,
            [],
        );
        match response.send_response(message).await {
            Ok(info) => info,
            Err(_) => silence(),
        }
    }
}
