//! The table of routes: the routes of the host and of the loaded modules, checked for conflicts, with their API description.
//!
//! Paths are matched before decoding, so that an encoded slash does not split a segment. The values are decoded afterwards ([`super::query`]). Literal segments
//! are compared byte by byte.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};
use latchmail_core::error::StartError;
use latchmail_core::limits::Bucket;
use latchmail_runtime::modules::{Module, Route, check_path};
use serde_json::Value;

use super::message::{Request, Response};
use super::openapi::{self, About};
use crate::rejection::Rejection;

/// The future of a handler's response.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response, Rejection>> + Send + 'a>>;

/// A handler of the host.
///
/// An `async fn action(&S, &Request) -> Result<Response, Rejection>` becomes a handler as
/// `|state, request| Box::pin(action(state, request))`.
pub type Handler<S> = for<'a> fn(&'a S, &'a Request) -> Answering<'a>;

/// A route of the host with its handler.
pub struct HostRoute<S> {
    /// The route.
    pub route: Route,
    /// The handler.
    pub handler: Handler<S>,
}

/// The target of a route.
pub enum Target<S> {
    /// A handler of the host.
    Host(Handler<S>),
    /// A module.
    Module(Arc<Module>),
}

/// The routes of one owner, with their API description.
pub struct Part<S> {
    /// The owner's name in errors, for example `the host` or `module mail`.
    pub owner: String,
    /// The routes and their targets.
    pub routes: Vec<(Route, Target<S>)>,
    /// An object with `paths` and `components`.
    pub description: Value,
}

/// An entry of the table.
pub struct Entry<S> {
    /// The route.
    pub route: Route,
    /// The owner of the route.
    pub owner: String,
    /// The rate-limit bucket of the route, if it has one.
    pub bucket: Option<Bucket>,
    /// The target of the route.
    pub target: Target<S>,
}

/// The table of all routes. A table does not change; it is replaced as a whole.
pub struct Table<S> {
    paths: matchit::Router<Path<S>>,
    entries: Vec<Arc<Entry<S>>>,
    description: Bytes,
}

struct Path<S> {
    methods: Vec<Arc<Entry<S>>>,
    allow: HeaderValue,
}

/// The result of looking up a method and a path.
pub enum Lookup<S> {
    /// The route exists. The values of its named segments are not decoded yet.
    Found {
        /// The route.
        entry: Arc<Entry<S>>,
        /// Names and raw values, in the path's order.
        segments: Vec<(String, String)>,
    },
    /// The path is known, but not with this method.
    Method {
        /// The methods of the path, as in the header `Allow`.
        allow: HeaderValue,
    },
    /// The path is unknown.
    Unknown,
}

impl<S> Part<S> {
    /// Creates a part with routes of the host.
    ///
    /// # Errors
    /// Returns an error if the description cannot be written as JSON.
    pub fn host(
        routes: Vec<HostRoute<S>>,
        description: &utoipa::openapi::OpenApi,
    ) -> Result<Self, StartError> {
        let description = serde_json::to_value(description).map_err(|error| {
            StartError::new(format!(
                "the host's API description cannot be written: {error}"
            ))
        })?;
        let routes = routes
            .into_iter()
            .map(|HostRoute { route, handler }| (route, Target::Host(handler)))
            .collect();
        Ok(Self {
            owner: "the host".into(),
            routes,
            description,
        })
    }

    /// Creates a part with the routes that a module declared.
    #[must_use]
    pub fn module(module: &Arc<Module>) -> Self {
        let manifest = module.manifest();
        Self {
            owner: format!("module {}", manifest.name),
            routes: manifest
                .routes
                .iter()
                .map(|route| (route.clone(), Target::Module(Arc::clone(module))))
                .collect(),
            description: manifest.description.clone(),
        }
    }
}

/// The entries of a table, and the matcher of their paths.
type Routed<S> = (Vec<Arc<Entry<S>>>, matchit::Router<Path<S>>);

impl<S> Table<S> {
    /// Builds a table from parts.
    ///
    /// # Errors
    /// Returns an error that names the routes if two routes have the same method and path, a route matches another owner's requests, an operation id is
    /// repeated, a pattern or a rate-limit bucket is invalid, or a description does not match its routes.
    pub fn build(about: &About, parts: Vec<Part<S>>) -> Result<Self, StartError> {
        let description = openapi::compose(about, &parts)?;
        let (entries, paths) = Self::routed(parts)?;
        Ok(Self {
            paths,
            entries,
            description,
        })
    }

    /// Performs the checks of [`Table::build`].
    ///
    /// # Errors
    /// Returns the errors of [`Table::build`].
    pub fn check(about: &About, parts: Vec<Part<S>>) -> Result<(), StartError> {
        openapi::check(about, &parts)?;
        Self::routed(parts).map(drop)
    }

    fn routed(parts: Vec<Part<S>>) -> Result<Routed<S>, StartError> {
        let mut entries = Vec::new();
        for part in parts {
            for (route, target) in part.routes {
                entries.push(Arc::new(Entry {
                    bucket: bucket(&part.owner, matches!(target, Target::Module(_)), &route)?,
                    owner: part.owner.clone(),
                    route,
                    target,
                }));
            }
        }
        for (at, entry) in entries.iter().enumerate() {
            if let Target::Host(_) = entry.target {
                check_host_route(entry)?;
            }
            for earlier in &entries[..at] {
                check_pair(earlier, entry)?;
            }
        }
        let mut by_path: BTreeMap<&str, Vec<Arc<Entry<S>>>> = BTreeMap::new();
        for entry in &entries {
            by_path
                .entry(&entry.route.path)
                .or_default()
                .push(Arc::clone(entry));
        }
        let mut paths = matchit::Router::new();
        for (pattern, methods) in by_path {
            let described = methods[0].to_string();
            let allow = allow(&methods)?;
            paths
                .insert(pattern, Path { methods, allow })
                .map_err(|error| {
                    StartError::new(format!("{described} cannot be routed: {error}"))
                })?;
        }
        Ok((entries, paths))
    }

    /// Looks up a method and an undecoded path. `HEAD` is routed as `GET`.
    #[must_use]
    pub fn find(&self, method: &Method, path: &str) -> Lookup<S> {
        let Ok(found) = self.paths.at(path) else {
            return Lookup::Unknown;
        };
        let method = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        match found
            .value
            .methods
            .iter()
            .find(|e| e.route.method == method)
        {
            Some(entry) => Lookup::Found {
                entry: Arc::clone(entry),
                segments: found
                    .params
                    .iter()
                    .map(|(name, value)| (name.into(), value.into()))
                    .collect(),
            },
            None => Lookup::Method {
                allow: found.value.allow.clone(),
            },
        }
    }

    /// Returns all routes.
    #[must_use]
    pub fn entries(&self) -> &[Arc<Entry<S>>] {
        &self.entries
    }

    /// Returns the API description as JSON.
    #[must_use]
    pub fn description(&self) -> Bytes {
        self.description.clone()
    }
}

impl<S> fmt::Display for Entry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} of {}",
            self.route.method, self.route.path, self.owner
        )
    }
}

impl<S> fmt::Debug for Table<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.entries.iter().map(ToString::to_string))
            .finish()
    }
}

/// Returns the rate-limit bucket of a route. Only routes of the host can have none.
fn bucket(owner: &str, of_module: bool, route: &Route) -> Result<Option<Bucket>, StartError> {
    if route.bucket.is_empty() {
        return if of_module {
            Err(StartError::new(format!(
                "{} {} of {owner} names no rate limit (a key of [limits]), which every route of a module must have",
                route.method, route.path
            )))
        } else {
            Ok(None)
        };
    }
    Bucket::named(&route.bucket).map(Some).ok_or_else(|| {
        StartError::new(format!(
            "{} {} of {owner} counts towards the limit `{}`, which is not a key of [limits]",
            route.method, route.path, route.bucket
        ))
    })
}

fn allow<S>(methods: &[Arc<Entry<S>>]) -> Result<HeaderValue, StartError> {
    let mut names: Vec<&str> = methods.iter().map(|e| e.route.method.as_str()).collect();
    if names.contains(&"GET") {
        names.push("HEAD");
    }
    names.sort_unstable();
    HeaderValue::from_str(&names.join(", "))
        .map_err(|error| StartError::new(format!("{} cannot be routed: {error}", methods[0])))
}

/// Checks the method and the path of a route of the host. Those of a module were checked when its manifest was read.
fn check_host_route<S>(entry: &Entry<S>) -> Result<(), StartError> {
    let error = |why: String| StartError::new(format!("{entry} cannot be routed: {why}"));
    if entry.route.method == Method::HEAD || entry.route.method == Method::OPTIONS {
        return Err(error("the server handles HEAD and OPTIONS".into()));
    }
    check_path(&entry.route.path).map_err(|reason| error(format!("its path {reason}")))
}

fn check_pair<S>(a: &Entry<S>, b: &Entry<S>) -> Result<(), StartError> {
    if a.route.operation == b.route.operation {
        return Err(StartError::new(format!(
            "{a} and {b} have the same operation id `{}`",
            a.route.operation
        )));
    }
    if a.route.path == b.route.path {
        return if a.route.method == b.route.method {
            Err(StartError::new(format!("{a} and {b} are the same route")))
        } else {
            Ok(())
        };
    }
    if !overlap(&a.route.path, &b.route.path) {
        return Ok(());
    }
    let shape = |path: &str| -> Vec<bool> { path.split('/').map(|s| named(s).is_some()).collect() };
    if shape(&a.route.path) == shape(&b.route.path) {
        return Err(StartError::new(format!(
            "{a} and {b} have the same path with different segment names"
        )));
    }
    // If both routes have the same owner, the overlap is allowed and the more specific path wins.
    if a.owner != b.owner {
        return Err(StartError::new(format!(
            "{a} and {b} match the same requests"
        )));
    }
    Ok(())
}

/// Returns `true` if a path can match both patterns.
fn overlap(a: &str, b: &str) -> bool {
    a.split('/').count() == b.split('/').count()
        && a.split('/')
            .zip(b.split('/'))
            .all(|(a, b)| a == b || named(a).is_some() || named(b).is_some())
}

fn named(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{part, route};

    fn error(parts: Vec<Part<()>>) -> String {
        Table::build(&About::default(), parts)
            .unwrap_err()
            .to_string()
    }

    fn table(paths: &[&str]) -> Table<()> {
        let routes = paths.iter().map(|path| route("GET", path)).collect();
        Table::build(&About::default(), vec![part("the host", routes)]).unwrap()
    }

    fn found(table: &Table<()>, path: &str) -> Option<(String, Vec<String>)> {
        match table.find(&Method::GET, path) {
            Lookup::Found { entry, segments } => Some((
                entry.route.path.clone(),
                segments.into_iter().map(|(_, value)| value).collect(),
            )),
            _ => None,
        }
    }

    #[test]
    fn an_encoded_slash_stays_within_its_segment() {
        let table = table(&["/folders/{folder}/messages"]);
        let (_, values) = found(&table, "/folders/A%2FB/messages").unwrap();
        assert_eq!(values, ["A%2FB"]);
        assert!(found(&table, "/folders/A/B/messages").is_none());
    }

    #[test]
    fn paths_are_compared_to_the_letter() {
        let table = table(&["/a/{x}", "/a/b/c"]);
        for path in ["/A/1", "/a/", "/a/1/", "/a", "//a/1", "/a//c", "*", ""] {
            assert!(found(&table, path).is_none(), "{path}");
        }
    }

    #[test]
    fn a_plain_word_wins_over_a_named_segment() {
        let table = table(&["/m/{uid}/flag", "/m/bulk/flag", "/m/{uid}"]);
        assert_eq!(found(&table, "/m/bulk/flag").unwrap().0, "/m/bulk/flag");
        assert_eq!(found(&table, "/m/7/flag").unwrap().0, "/m/{uid}/flag");
        assert_eq!(found(&table, "/m/bulk").unwrap().0, "/m/{uid}");
    }

    #[test]
    fn a_known_path_names_its_methods() {
        let routes = vec![route("GET", "/a"), route("DELETE", "/a")];
        let table = Table::<()>::build(&About::default(), vec![part("the host", routes)]).unwrap();
        let Lookup::Method { allow } = table.find(&Method::PUT, "/a") else {
            panic!("found");
        };
        assert_eq!(allow, "DELETE, GET, HEAD");
        assert!(matches!(
            table.find(&Method::HEAD, "/a"),
            Lookup::Found { .. }
        ));
    }

    #[test]
    fn both_sides_of_a_conflict_are_named() {
        let host = |path| part("the host", vec![route("GET", path)]);
        let module = |method, path| part("module x", vec![route(method, path)]);
        let same = error(vec![host("/a"), module("GET", "/a")]);
        assert!(
            same.contains("GET /a of the host and GET /a of module x"),
            "{same}"
        );
        let shadow = error(vec![host("/a/{id}"), module("GET", "/a/me")]);
        assert!(
            shadow.contains("GET /a/{id} of the host and GET /a/me of module x"),
            "{shadow}"
        );
        let names = error(vec![host("/a/{id}"), module("POST", "/a/{uid}")]);
        assert!(names.contains("different segment names"), "{names}");
        let mut twice = route("GET", "/b");
        twice.operation = route("GET", "/a").operation;
        let twice = error(vec![host("/a"), part("module x", vec![twice])]);
        assert!(
            twice.contains("GET /a of the host and GET /b of module x"),
            "{twice}"
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_routed_is_refused() {
        for path in [
            "a", "/", "/a/", "/a//b", "/{*rest}", "/a{b}", "/{a}-{b}", "/{}", "/{a}/{a}", "/a%2f",
            "/..", "/ä",
        ] {
            let sentence = error(vec![part("module x", vec![route("GET", path)])]);
            assert!(
                sentence.contains("of module x cannot be routed"),
                "{path}: {sentence}"
            );
        }
    }

    #[test]
    fn only_the_host_has_routes_without_a_limit() {
        let unlimited = route("GET", "/a");
        assert_eq!(bucket("the host", false, &unlimited).unwrap(), None);
        let refused = bucket("module x", true, &unlimited)
            .unwrap_err()
            .to_string();
        assert!(refused.starts_with("GET /a of module x"), "{refused}");
    }

    #[test]
    fn an_unknown_area_is_refused_by_name() {
        let mut lost = route("GET", "/a");
        lost.bucket = "mial".into();
        let sentence = error(vec![part("module x", vec![lost])]);
        assert!(sentence.contains("`mial`"), "{sentence}");
    }
}
