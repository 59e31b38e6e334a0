//! The route table. It contains the routes of the host and of the loaded modules, and the API
//! description of all routes. All routes are checked for conflicts.
//!
//! Paths are matched before percent-decoding, because an encoded slash must not split a segment.
//! The values of named segments are decoded after the match ([`crate::query`]). Literal segments
//! are compared byte by byte.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};
use latchmail_core::error::StartError;
use latchmail_core::limits::Bucket;
use latchmail_runtime::modules::{Access, Route};
use latchmail_shape::check_path;

use crate::openapi;
use crate::openapi::info::ApiInfo;
use crate::route_group::{RouteGroup, Target};

/// An entry of the route table.
pub struct RouteEntry<S> {
    /// The route.
    pub route: Route,
    /// The name of the route's owner ([`RouteGroup::owner`]).
    pub owner: String,
    /// The rate-limit bucket of the route, or `None` if the route has no rate limit.
    pub bucket: Option<Bucket>,
    /// The handler or the module of the route.
    pub target: Target<S>,
}

/// The immutable table of all routes. A change of the routes replaces the whole table.
pub struct RouteTable<S> {
    paths: matchit::Router<Path<S>>,
    entries: Vec<Arc<RouteEntry<S>>>,
    description: Bytes,
}

/// The routes that have the same path.
struct Path<S> {
    methods: Vec<Arc<RouteEntry<S>>>,
    /// The methods of these routes, as the value of the header `Allow`.
    allow: HeaderValue,
}

/// The result of a lookup by method and path.
pub enum Lookup<S> {
    /// The route exists. The values of its named segments are not decoded.
    Found {
        /// The route.
        entry: Arc<RouteEntry<S>>,
        /// The names and undecoded values of the named segments, in the order of the path.
        segments: Vec<(String, String)>,
    },
    /// The path has routes, but no route with the method of the request.
    MethodNotAllowed {
        /// The methods of the path, as the value of the header `Allow`.
        allow: HeaderValue,
    },
    /// No route has this path.
    NotFound,
}

/// The entries of a table, and the matcher of their paths.
type Entries<S> = (Vec<Arc<RouteEntry<S>>>, matchit::Router<Path<S>>);

impl<S> RouteTable<S> {
    /// Builds a table from route groups.
    ///
    /// # Errors
    /// Returns an error if two routes have the same method and path, or if routes of two owners
    /// match the same requests. Also returns an error if an operation id is repeated, or if a path
    /// pattern or a rate-limit bucket is invalid. Also returns an error if an API description does
    /// not match its routes.
    pub fn build(info: &ApiInfo, groups: Vec<RouteGroup<S>>) -> Result<Self, StartError> {
        // A page contains the description in a script element, in which `</script` would end the
        // element. So `<` is escaped. This is possible because JSON contains `<` only in strings.
        let description = openapi::compose(info, &groups)?;
        let description = String::from_utf8_lossy(&description).replace('<', "\\u003c");
        let (entries, paths) = Self::build_entries(groups)?;
        Ok(Self {
            paths,
            entries,
            description: description.into(),
        })
    }

    /// Performs the checks of [`RouteTable::build`] without building the table.
    ///
    /// # Errors
    /// Fails under the same conditions as [`RouteTable::build`].
    pub fn check(info: &ApiInfo, groups: Vec<RouteGroup<S>>) -> Result<(), StartError> {
        openapi::check(info, &groups)?;
        Self::build_entries(groups).map(drop)
    }

    fn build_entries(groups: Vec<RouteGroup<S>>) -> Result<Entries<S>, StartError> {
        let mut entries = Vec::new();
        for group in groups {
            for (route, target) in group.routes {
                entries.push(Arc::new(RouteEntry {
                    bucket: bucket(&group.owner, matches!(target, Target::Module(_)), &route)?,
                    owner: group.owner.clone(),
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
        let mut by_path: BTreeMap<&str, Vec<Arc<RouteEntry<S>>>> = BTreeMap::new();
        for entry in &entries {
            by_path
                .entry(&entry.route.path)
                .or_default()
                .push(Arc::clone(entry));
        }
        let mut paths = matchit::Router::new();
        for (pattern, methods) in by_path {
            let first = methods[0].to_string();
            let allow = allow_header(&methods)?;
            paths
                .insert(pattern, Path { methods, allow })
                .map_err(|error| StartError::new(format!("{first} cannot be routed: {error}")))?;
        }
        Ok((entries, paths))
    }

    /// Looks up a route by method and undecoded path. For `HEAD`, finds the route of `GET`.
    #[must_use]
    pub fn find(&self, method: &Method, path: &str) -> Lookup<S> {
        let Ok(found) = self.paths.at(path) else {
            return Lookup::NotFound;
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
            None => Lookup::MethodNotAllowed {
                allow: found.value.allow.clone(),
            },
        }
    }

    /// Returns all routes.
    #[must_use]
    pub fn entries(&self) -> &[Arc<RouteEntry<S>>] {
        &self.entries
    }

    /// Returns the API description of all routes, as JSON without the character `<`.
    #[must_use]
    pub fn description(&self) -> Bytes {
        self.description.clone()
    }
}

impl<S> fmt::Display for RouteEntry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} of {}",
            self.route.method, self.route.path, self.owner
        )
    }
}

impl<S> fmt::Debug for RouteTable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.entries.iter().map(ToString::to_string))
            .finish()
    }
}

/// Returns the rate-limit bucket of a route. Returns an error if a route of a module has no bucket.
fn bucket(owner: &str, is_module: bool, route: &Route) -> Result<Option<Bucket>, StartError> {
    if route.bucket.is_empty() {
        return if is_module {
            Err(StartError::new(format!(
                "{} {} of {owner} has no rate limit. Every route of a module must name a key of [limits]",
                route.method, route.path
            )))
        } else {
            Ok(None)
        };
    }
    Bucket::named(&route.bucket).map(Some).ok_or_else(|| {
        StartError::new(format!(
            "{} {} of {owner} has the rate limit `{}`, which is not a key of [limits]",
            route.method, route.path, route.bucket
        ))
    })
}

/// Returns the value of the header `Allow` for the routes of a path.
fn allow_header<S>(methods: &[Arc<RouteEntry<S>>]) -> Result<HeaderValue, StartError> {
    let mut names: Vec<&str> = methods.iter().map(|e| e.route.method.as_str()).collect();
    if names.contains(&"GET") {
        names.push("HEAD");
    }
    names.sort_unstable();
    HeaderValue::from_str(&names.join(", "))
        .map_err(|error| StartError::new(format!("{} cannot be routed: {error}", methods[0])))
}

/// Checks the method and the path of a route of the host. The routes of a module were checked when
/// its manifest was read.
fn check_host_route<S>(entry: &RouteEntry<S>) -> Result<(), StartError> {
    let error = |why: String| StartError::new(format!("{entry} cannot be routed: {why}"));
    if entry.route.method == Method::HEAD || entry.route.method == Method::OPTIONS {
        return Err(error("the server handles HEAD and OPTIONS".into()));
    }
    let is_counted = entry.bucket.is_some() || entry.route.verifies_body;
    if entry.route.access == Access::Public && entry.route.max_body > 0 && !is_counted {
        return Err(error(
            "a public route with a body needs a rate limit".into(),
        ));
    }
    // `check_path` rejects the path `/`, because modules must not have it. The host can have it.
    if entry.route.path == "/" {
        return Ok(());
    }
    check_path(&entry.route.path).map_err(|reason| error(format!("its path {reason}")))
}

/// Checks that two routes do not conflict.
fn check_pair<S>(a: &RouteEntry<S>, b: &RouteEntry<S>) -> Result<(), StartError> {
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
    let named_segments = |path: &str| -> Vec<bool> {
        path.split('/')
            .map(|segment| segment_name(segment).is_some())
            .collect()
    };
    if named_segments(&a.route.path) == named_segments(&b.route.path) {
        return Err(StartError::new(format!(
            "{a} and {b} have the same path with different segment names"
        )));
    }
    // Routes of the same owner can match the same requests. In this case, a literal segment has
    // precedence over a named segment.
    if a.owner != b.owner {
        return Err(StartError::new(format!(
            "{a} and {b} match the same requests"
        )));
    }
    Ok(())
}

/// Returns `true` if a path can match the two patterns.
fn overlap(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.split('/'), b.split('/'));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if matches_rest(a) || matches_rest(b) => return true,
            (Some(a), Some(b))
                if a == b || segment_name(a).is_some() || segment_name(b).is_some() => {}
            _ => return false,
        }
    }
}

/// Returns `true` for a last segment such as `{*rest}`, which matches all further segments. Only
/// the routes of mounted standard components have such a segment.
fn matches_rest(segment: &str) -> bool {
    segment.starts_with("{*")
}

/// Returns the name in a named segment such as `{name}`. Returns `None` for a literal segment.
fn segment_name(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{group, route};

    fn error(groups: Vec<RouteGroup<()>>) -> String {
        RouteTable::build(&ApiInfo::default(), groups)
            .unwrap_err()
            .to_string()
    }

    fn table(paths: &[&str]) -> RouteTable<()> {
        let routes = paths.iter().map(|path| route("GET", path)).collect();
        RouteTable::build(&ApiInfo::default(), vec![group("the host", routes)]).unwrap()
    }

    fn found(table: &RouteTable<()>, path: &str) -> Option<(String, Vec<String>)> {
        match table.find(&Method::GET, path) {
            Lookup::Found { entry, segments } => Some((
                entry.route.path.clone(),
                segments.into_iter().map(|(_, value)| value).collect(),
            )),
            _ => None,
        }
    }

    #[test]
    fn an_encoded_slash_does_not_split_a_segment() {
        let table = table(&["/folders/{folder}/messages"]);
        let (_, values) = found(&table, "/folders/A%2FB/messages").unwrap();
        assert_eq!(values, ["A%2FB"]);
        assert!(found(&table, "/folders/A/B/messages").is_none());
    }

    #[test]
    fn paths_are_compared_byte_by_byte() {
        let table = table(&["/a/{x}", "/a/b/c"]);
        for path in ["/A/1", "/a/", "/a/1/", "/a", "//a/1", "/a//c", "*", ""] {
            assert!(found(&table, path).is_none(), "{path}");
        }
    }

    #[test]
    fn a_literal_segment_has_precedence_over_a_named_segment() {
        let table = table(&["/m/{uid}/flag", "/m/bulk/flag", "/m/{uid}"]);
        assert_eq!(found(&table, "/m/bulk/flag").unwrap().0, "/m/bulk/flag");
        assert_eq!(found(&table, "/m/7/flag").unwrap().0, "/m/{uid}/flag");
        assert_eq!(found(&table, "/m/bulk").unwrap().0, "/m/{uid}");
    }

    #[test]
    fn a_path_without_the_method_returns_the_allowed_methods() {
        let routes = vec![route("GET", "/a"), route("DELETE", "/a")];
        let table =
            RouteTable::<()>::build(&ApiInfo::default(), vec![group("the host", routes)]).unwrap();
        let Lookup::MethodNotAllowed { allow } = table.find(&Method::PUT, "/a") else {
            panic!("found");
        };
        assert_eq!(allow, "DELETE, GET, HEAD");
        assert!(matches!(
            table.find(&Method::HEAD, "/a"),
            Lookup::Found { .. }
        ));
    }

    #[test]
    fn the_error_names_both_conflicting_routes() {
        let host = |path| group("the host", vec![route("GET", path)]);
        let module = |method, path| group("module x", vec![route(method, path)]);
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
        let twice = error(vec![host("/a"), group("module x", vec![twice])]);
        assert!(
            twice.contains("GET /a of the host and GET /b of module x"),
            "{twice}"
        );
    }

    #[test]
    fn a_pattern_for_all_further_segments_overlaps_with_all_paths_below_it() {
        for below in ["/a/b", "/a/{id}", "/a/b/c", "/{x}/b"] {
            assert!(overlap("/a/{*rest}", below), "{below}");
            assert!(overlap(below, "/a/{*rest}"), "{below}");
        }
        for other in ["/a", "/b/c", "/ab/c", "/"] {
            assert!(!overlap("/a/{*rest}", other), "{other}");
        }
    }

    #[test]
    fn an_invalid_path_is_rejected() {
        for path in [
            "a", "/a/", "/a//b", "/{*rest}", "/a{b}", "/{a}-{b}", "/{}", "/{a}/{a}", "/a%2f",
            "/..", "/ä",
        ] {
            let message = error(vec![group("module x", vec![route("GET", path)])]);
            assert!(
                message.contains("of module x cannot be routed"),
                "{path}: {message}"
            );
        }
    }

    #[test]
    fn only_routes_of_the_host_can_have_no_rate_limit() {
        let unlimited = route("GET", "/a");
        assert_eq!(bucket("the host", false, &unlimited).unwrap(), None);
        let error = bucket("module x", true, &unlimited)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("GET /a of module x"), "{error}");
    }

    #[test]
    fn a_public_route_with_a_body_needs_a_rate_limit() {
        let mut with_body = route("POST", "/a");
        with_body.max_body = 1;
        let message = error(vec![group("the host", vec![with_body.clone()])]);
        assert!(message.contains("needs a rate limit"), "{message}");
        with_body.bucket = "public".into();
        let groups = vec![group::<()>("the host", vec![with_body])];
        assert!(RouteTable::build(&ApiInfo::default(), groups).is_ok());
    }

    #[test]
    fn an_unknown_rate_limit_is_rejected_with_its_name() {
        let mut invalid = route("GET", "/a");
        invalid.bucket = "mial".into();
        let message = error(vec![group("module x", vec![invalid])]);
        assert!(message.contains("`mial`"), "{message}");
    }
}
