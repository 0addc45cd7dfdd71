"""Which relations Postgres' catalogs have, and their columns: what clients may name without failing.

Each is a table of the twin, empty unless twin.py has rows for it. A column's kind stands behind its name: o a number
of the catalog's (oid), b boolean, s i l integers of 2, 4 and 8 bytes, f a float, z a moment; S O T lists of s, o and
texts. Others are texts.

Functions that clients call in queries of catalogs, as macros of the twin.
"""

from __future__ import annotations

from dpsql.server.postgres.types import NUMERIC

KINDS = {
    "": "VARCHAR", "o": "UINTEGER", "b": "BOOLEAN", "s": "SMALLINT", "i": "INTEGER", "l": "BIGINT", "f": "FLOAT",
    "z": "TIMESTAMP WITH TIME ZONE", "S": "SMALLINT[]", "O": "UINTEGER[]", "T": "VARCHAR[]",
}  # fmt: skip
"""The types of the twin by their letters."""


def relations(text: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Of each relation its columns and their types."""
    found = {}
    for line in text.replace("\n    ", " ").strip().splitlines():
        name, _, listed = line.partition(" = ")
        pairs = (column.partition(":") for column in listed.split())
        found[name] = tuple((column, KINDS[kind]) for column, _, kind in pairs)
    return found


PG_CATALOG = relations("""
pg_aggregate = aggfnoid aggkind aggnumdirectargs:s aggtransfn aggfinalfn aggcombinefn aggserialfn aggdeserialfn
    aggmtransfn aggminvtransfn aggmfinalfn aggfinalextra:b aggmfinalextra:b aggfinalmodify aggmfinalmodify aggsortop:o
    aggtranstype:o aggtransspace:i aggmtranstype:o aggmtransspace:i agginitval aggminitval
pg_am = oid:o amname amhandler amtype
pg_attrdef = oid:o adrelid:o adnum:s adbin
pg_attribute = attrelid:o attname atttypid:o attstattarget:i attlen:s attnum:s attndims:i attcacheoff:i atttypmod:i
    attbyval:b attalign attstorage attcompression attnotnull:b atthasdef:b atthasmissing:b attidentity attgenerated
    attisdropped:b attislocal:b attinhcount:i attcollation:o attacl:T attoptions:T attfdwoptions:T attmissingval
pg_auth_members = roleid:o member:o grantor:o admin_option:b
pg_available_extensions = name default_version installed_version comment
pg_cast = oid:o castsource:o casttarget:o castfunc:o castcontext castmethod
pg_class = oid:o relname relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o
    relpages:i reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b relpersistence relkind
    relnatts:s relchecks:s relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b
    relispopulated:b relreplident relispartition:b relrewrite:o relfrozenxid:o relminmxid:o relacl:T reloptions:T
    relpartbound
pg_collation = oid:o collname collnamespace:o collowner:o collprovider collisdeterministic:b collencoding:i
    collcollate collctype colliculocale collversion
pg_constraint = oid:o conname connamespace:o contype condeferrable:b condeferred:b convalidated:b conrelid:o
    contypid:o conindid:o conparentid:o confrelid:o confupdtype confdeltype confmatchtype conislocal:b coninhcount:i
    connoinherit:b conkey:S confkey:S conpfeqop:O conppeqop:O conffeqop:O confdelsetcols:S conexclop:O conbin
pg_conversion = oid:o conname connamespace:o conowner:o conforencoding:i contoencoding:i conproc condefault:b
pg_cursors = name statement is_holdable:b is_binary:b is_scrollable:b creation_time:z
pg_database = oid:o datname datdba:o encoding:i datlocprovider datistemplate:b datallowconn:b datconnlimit:i
    datfrozenxid:o datminmxid:o dattablespace:o datcollate datctype daticulocale datcollversion datacl:T
pg_db_role_setting = setdatabase:o setrole:o setconfig:T
pg_default_acl = oid:o defaclrole:o defaclnamespace:o defaclobjtype defaclacl:T
pg_depend = classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype
pg_description = objoid:o classoid:o objsubid:i description
pg_enum = oid:o enumtypid:o enumsortorder:f enumlabel
pg_event_trigger = oid:o evtname evtevent evtowner:o evtfoid:o evtenabled evttags:T
pg_extension = oid:o extname extowner:o extnamespace:o extrelocatable:b extversion extconfig:O extcondition:T
pg_foreign_data_wrapper = oid:o fdwname fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:T fdwoptions:T
pg_foreign_server = oid:o srvname srvowner:o srvfdw:o srvtype srvversion srvacl:T srvoptions:T
pg_foreign_table = ftrelid:o ftserver:o ftoptions:T
pg_group = groname grosysid:o grolist:O
pg_index = indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indnullsnotdistinct:b indisprimary:b
    indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b
    indisreplident:b indkey:S indcollation:O indclass:O indoption:S indexprs indpred
pg_indexes = schemaname tablename indexname tablespace indexdef
pg_inherits = inhrelid:o inhparent:o inhseqno:i inhdetachpending:b
pg_init_privs = objoid:o classoid:o objsubid:i privtype initprivs:T
pg_language = oid:o lanname lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:o laninline:o lanvalidator:o lanacl:T
pg_largeobject_metadata = oid:o lomowner:o lomacl:T
pg_locks = locktype database:o relation:o page:i tuple:s virtualxid transactionid:o classid:o objid:o objsubid:s
    virtualtransaction pid:i mode granted:b fastpath:b waitstart:z
pg_matviews = schemaname matviewname matviewowner tablespace hasindexes:b ispopulated:b definition
pg_namespace = oid:o nspname nspowner:o nspacl:T
pg_opclass = oid:o opcmethod:o opcname opcnamespace:o opcowner:o opcfamily:o opcintype:o opcdefault:b opckeytype:o
pg_operator = oid:o oprname oprnamespace:o oprowner:o oprkind oprcanmerge:b oprcanhash:b oprleft:o oprright:o
    oprresult:o oprcom:o oprnegate:o oprcode oprrest oprjoin
pg_opfamily = oid:o opfmethod:o opfname opfnamespace:o opfowner:o
pg_partitioned_table = partrelid:o partstrat partnatts:s partdefid:o partattrs:S partclass:O partcollation:O partexprs
pg_policies = schemaname tablename policyname permissive roles:T cmd qual with_check
pg_policy = oid:o polname polrelid:o polcmd polpermissive:b polroles:O polqual polwithcheck
pg_prepared_statements = name statement prepare_time:z parameter_types:T from_sql:b generic_plans:l custom_plans:l
pg_prepared_xacts = transaction:o gid prepared:z owner database
pg_proc = oid:o proname pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o prosupport prokind
    prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile proparallel pronargs:s pronargdefaults:s
    prorettype:o proargtypes:O proallargtypes:O proargmodes:T proargnames:T proargdefaults protrftypes:O prosrc probin
    prosqlbody proconfig:T proacl:T
pg_publication = oid:o pubname pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b
    pubviaroot:b
pg_publication_namespace = oid:o pnpubid:o pnnspid:o
pg_publication_rel = oid:o prpubid:o prrelid:o prqual prattrs:S
pg_publication_tables = pubname schemaname tablename attnames:T rowfilter
pg_range = rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical rngsubdiff
pg_rewrite = oid:o rulename ev_class:o ev_type ev_enabled is_instead:b ev_qual ev_action
pg_roles = rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolconnlimit:i
    rolpassword rolvaliduntil:z rolbypassrls:b rolconfig:T oid:o
pg_rules = schemaname tablename rulename definition
pg_seclabel = objoid:o classoid:o objsubid:i provider label
pg_sequence = seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b
pg_sequences = schemaname sequencename sequenceowner data_type start_value:l min_value:l max_value:l increment_by:l
    cycle:b cache_size:l last_value:l
pg_settings = name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals:T
    boot_val reset_val sourcefile sourceline:i pending_restart:b
pg_shdepend = dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype
pg_shdescription = objoid:o classoid:o description
pg_stat_activity = datid:o datname pid:i leader_pid:i usesysid:o usename application_name client_addr client_hostname
    client_port:i backend_start:z xact_start:z query_start:z state_change:z wait_event_type wait_event state
    backend_xid:o backend_xmin:o query_id:l query backend_type
pg_stat_all_tables = relid:o schemaname relname seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l n_tup_ins:l
    n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_live_tup:l n_dead_tup:l n_mod_since_analyze:l n_ins_since_vacuum:l
    last_vacuum:z last_autovacuum:z last_analyze:z last_autoanalyze:z vacuum_count:l autovacuum_count:l
    analyze_count:l autoanalyze_count:l
pg_stat_user_tables = relid:o schemaname relname seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l n_tup_ins:l
    n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_live_tup:l n_dead_tup:l n_mod_since_analyze:l n_ins_since_vacuum:l
    last_vacuum:z last_autovacuum:z last_analyze:z last_autoanalyze:z vacuum_count:l autovacuum_count:l
    analyze_count:l autoanalyze_count:l
pg_statio_user_tables = relid:o schemaname relname heap_blks_read:l heap_blks_hit:l idx_blks_read:l idx_blks_hit:l
    toast_blks_read:l toast_blks_hit:l tidx_blks_read:l tidx_blks_hit:l
pg_statistic_ext = oid:o stxrelid:o stxname stxnamespace:o stxowner:o stxstattarget:i stxkeys:S stxkind:T stxexprs
pg_stats = schemaname tablename attname inherited:b null_frac:f avg_width:i n_distinct:f most_common_vals
    most_common_freqs:T histogram_bounds correlation:f most_common_elems most_common_elem_freqs:T
    elem_count_histogram:T
pg_subscription = oid:o subdbid:o subskiplsn subname subowner:o subenabled:b subbinary:b substream:b subtwophasestate
    subdisableonerr:b subconninfo subslotname subsynccommit subpublications:T
pg_subscription_rel = srsubid:o srrelid:o srsubstate srsublsn
pg_tables = schemaname tablename tableowner tablespace hasindexes:b hasrules:b hastriggers:b rowsecurity:b
pg_tablespace = oid:o spcname spcowner:o spcacl:T spcoptions:T
pg_timezone_names = name abbrev utc_offset is_dst:b
pg_transform = oid:o trftype:o trflang:o trffromsql trftosql
pg_trigger = oid:o tgrelid:o tgparentid:o tgname tgfoid:o tgtype:s tgenabled tgisinternal:b tgconstrrelid:o
    tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:s tgattr:S tgargs tgqual tgoldtable
    tgnewtable
pg_ts_config = oid:o cfgname cfgnamespace:o cfgowner:o cfgparser:o
pg_ts_dict = oid:o dictname dictnamespace:o dictowner:o dicttemplate:o dictinitoption
pg_ts_parser = oid:o prsname prsnamespace:o prsstart prstoken prsend prsheadline prslextype
pg_ts_template = oid:o tmplname tmplnamespace:o tmplinit tmpllexize
pg_type = oid:o typname typnamespace:o typowner:o typlen:s typbyval:b typtype typcategory typispreferred:b
    typisdefined:b typdelim typrelid:o typsubscript typelem:o typarray:o typinput typoutput typreceive typsend
    typmodin typmodout typanalyze typalign typstorage typnotnull:b typbasetype:o typtypmod:i typndims:i typcollation:o
    typdefaultbin typdefault typacl:T
pg_user = usename usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil:z useconfig:T
pg_user_mapping = oid:o umuser:o umserver:o umoptions:T
pg_user_mappings = umid:o srvid:o srvname umuser:o usename umoptions:T
pg_views = schemaname viewname viewowner definition
""")

INFORMATION_SCHEMA = relations("""
applicable_roles = grantee role_name is_grantable
attributes = udt_catalog udt_schema udt_name attribute_name ordinal_position:i attribute_default is_nullable data_type
    character_maximum_length:i character_octet_length:i character_set_catalog character_set_schema character_set_name
    collation_catalog collation_schema collation_name numeric_precision:i numeric_precision_radix:i numeric_scale:i
    datetime_precision:i interval_type interval_precision:i attribute_udt_catalog attribute_udt_schema
    attribute_udt_name scope_catalog scope_schema scope_name maximum_cardinality:i dtd_identifier
    is_derived_reference_attribute
character_sets = character_set_catalog character_set_schema character_set_name character_repertoire form_of_use
    default_collate_catalog default_collate_schema default_collate_name
check_constraints = constraint_catalog constraint_schema constraint_name check_clause
collations = collation_catalog collation_schema collation_name pad_attribute
column_domain_usage = domain_catalog domain_schema domain_name table_catalog table_schema table_name column_name
column_privileges = grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable
column_udt_usage = udt_catalog udt_schema udt_name table_catalog table_schema table_name column_name
columns = table_catalog table_schema table_name column_name ordinal_position:i column_default is_nullable data_type
    character_maximum_length:i character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i
    datetime_precision:i interval_type interval_precision:i character_set_catalog character_set_schema
    character_set_name collation_catalog collation_schema collation_name domain_catalog domain_schema domain_name
    udt_catalog udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality:i dtd_identifier
    is_self_referencing is_identity identity_generation identity_start identity_increment identity_maximum
    identity_minimum identity_cycle is_generated generation_expression is_updatable
constraint_column_usage = table_catalog table_schema table_name column_name constraint_catalog constraint_schema
    constraint_name
constraint_table_usage = table_catalog table_schema table_name constraint_catalog constraint_schema constraint_name
domain_constraints = constraint_catalog constraint_schema constraint_name domain_catalog domain_schema domain_name
    is_deferrable initially_deferred
domains = domain_catalog domain_schema domain_name data_type character_maximum_length:i character_octet_length:i
    character_set_catalog character_set_schema character_set_name collation_catalog collation_schema collation_name
    numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type
    interval_precision:i domain_default udt_catalog udt_schema udt_name scope_catalog scope_schema scope_name
    maximum_cardinality:i dtd_identifier
element_types = object_catalog object_schema object_name object_type collection_type_identifier data_type
    character_maximum_length:i character_octet_length:i character_set_catalog character_set_schema character_set_name
    collation_catalog collation_schema collation_name numeric_precision:i numeric_precision_radix:i numeric_scale:i
    datetime_precision:i interval_type interval_precision:i domain_default udt_catalog udt_schema udt_name
    scope_catalog scope_schema scope_name maximum_cardinality:i dtd_identifier
enabled_roles = role_name
foreign_tables = foreign_table_catalog foreign_table_schema foreign_table_name foreign_server_catalog
    foreign_server_name
information_schema_catalog_name = catalog_name
key_column_usage = constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name
    column_name ordinal_position:i position_in_unique_constraint:i
parameters = specific_catalog specific_schema specific_name ordinal_position:i parameter_mode is_result as_locator
    parameter_name data_type character_maximum_length:i character_octet_length:i character_set_catalog
    character_set_schema character_set_name collation_catalog collation_schema collation_name numeric_precision:i
    numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type interval_precision:i udt_catalog
    udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality:i dtd_identifier parameter_default
referential_constraints = constraint_catalog constraint_schema constraint_name unique_constraint_catalog
    unique_constraint_schema unique_constraint_name match_option update_rule delete_rule
role_column_grants = grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable
role_routine_grants = grantor grantee specific_catalog specific_schema specific_name routine_catalog routine_schema
    routine_name privilege_type is_grantable
role_table_grants = grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy
routine_privileges = grantor grantee specific_catalog specific_schema specific_name routine_catalog routine_schema
    routine_name privilege_type is_grantable
routines = specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name routine_type
    module_catalog module_schema module_name udt_catalog udt_schema udt_name data_type character_maximum_length:i
    character_octet_length:i character_set_catalog character_set_schema character_set_name collation_catalog
    collation_schema collation_name numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i
    interval_type interval_precision:i type_udt_catalog type_udt_schema type_udt_name scope_catalog scope_schema
    scope_name maximum_cardinality:i dtd_identifier routine_body routine_definition external_name external_language
    parameter_style is_deterministic sql_data_access is_null_call sql_path schema_level_routine
    max_dynamic_result_sets:i is_user_defined_cast is_implicitly_invocable security_type to_sql_specific_catalog
    to_sql_specific_schema to_sql_specific_name as_locator created last_altered new_savepoint_level is_udt_dependent
    result_cast_from_data_type result_cast_as_locator result_cast_char_max_length:i result_cast_char_octet_length:i
    result_cast_char_set_catalog result_cast_char_set_schema result_cast_char_set_name result_cast_collation_catalog
    result_cast_collation_schema result_cast_collation_name result_cast_numeric_precision:i
    result_cast_numeric_precision_radix:i result_cast_numeric_scale:i result_cast_datetime_precision:i
    result_cast_interval_type result_cast_interval_precision:i result_cast_type_udt_catalog
    result_cast_type_udt_schema result_cast_type_udt_name result_cast_scope_catalog result_cast_scope_schema
    result_cast_scope_name result_cast_maximum_cardinality:i result_cast_dtd_identifier
schemata = catalog_name schema_name schema_owner default_character_set_catalog default_character_set_schema
    default_character_set_name sql_path
sequences = sequence_catalog sequence_schema sequence_name data_type numeric_precision:i numeric_precision_radix:i
    numeric_scale:i start_value minimum_value maximum_value increment cycle_option
sql_features = feature_id feature_name sub_feature_id sub_feature_name is_supported is_verified_by comments
table_constraints = constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name
    constraint_type is_deferrable initially_deferred enforced nulls_distinct
table_privileges = grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy
tables = table_catalog table_schema table_name table_type self_referencing_column_name reference_generation
    user_defined_type_catalog user_defined_type_schema user_defined_type_name is_insertable_into is_typed
    commit_action
triggers = trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog event_object_schema
    event_object_table action_order:i action_condition action_statement action_orientation action_timing
    action_reference_old_table action_reference_new_table action_reference_old_row action_reference_new_row created
udt_privileges = grantor grantee udt_catalog udt_schema udt_name privilege_type is_grantable
usage_privileges = grantor grantee object_catalog object_schema object_name object_type privilege_type is_grantable
view_column_usage = view_catalog view_schema view_name table_catalog table_schema table_name column_name
view_table_usage = view_catalog view_schema view_name table_catalog table_schema table_name
views = table_catalog table_schema table_name view_definition check_option is_updatable is_insertable_into
    is_trigger_updatable is_trigger_deletable is_trigger_insertable_into
""")


SYSTEM_OIDS = {
    "pg_class": 1259, "pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_namespace": 2615,
    "pg_constraint": 2606, "pg_database": 1262, "pg_authid": 1260, "pg_description": 2609, "pg_index": 2610,
    "pg_attrdef": 2604, "pg_trigger": 2620, "pg_rewrite": 2618, "pg_tablespace": 1213, "pg_roles": 1260,
    "pg_extension": 3079, "pg_collation": 3456, "pg_language": 2612, "pg_foreign_server": 1417,
}  # fmt: skip
"""The numbers of catalogs that others refer to."""


def _words(text: str) -> list[str]:
    return text.split()


_NOTHING = _words("""
    pg_get_viewdef pg_get_functiondef pg_get_function_result pg_get_function_arguments pg_get_triggerdef
    pg_get_function_identity_arguments pg_get_ruledef pg_get_partkeydef pg_get_statisticsobjdef_columns
    pg_get_serial_sequence pg_get_function_arg_default pg_tablespace_location pg_get_function_sqlbody
    pg_sequence_last_value shobj_description inet_server_addr inet_client_addr pg_get_expr
""")
_TRUE = _words("""
    pg_table_is_visible pg_type_is_visible pg_function_is_visible pg_operator_is_visible pg_opclass_is_visible
    pg_collation_is_visible pg_statistics_obj_is_visible pg_conversion_is_visible pg_ts_config_is_visible
    pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible pg_opfamily_is_visible
    pg_advisory_unlock pg_try_advisory_lock
    has_table_privilege has_schema_privilege has_database_privilege has_any_column_privilege has_column_privilege
    pg_has_role
""")
_FALSE = _words("""
    has_function_privilege has_sequence_privilege has_tablespace_privilege has_language_privilege
    has_foreign_data_wrapper_privilege has_server_privilege has_type_privilege pg_is_other_temp_schema
    pg_column_is_updatable pg_relation_is_publishable
""")
_ZERO = _words("""
    pg_relation_size pg_total_relation_size pg_table_size pg_indexes_size pg_database_size pg_tablespace_size
    pg_relation_is_updatable
""")


def _each(count: int, body: str) -> str:
    """The same for one to so many arguments."""
    return ", ".join(f"({', '.join('abcdef'[:n])}) AS {body}" for n in range(1, count + 1))


def _found(column: str, relation: str, condition: str) -> str:
    return f"(SELECT {column} FROM pg.{relation} WHERE {condition} LIMIT 1)"


_CLASS = _found("oid", "pg_class", "relname = pg_bare(a)")
_TYPE = _found("oid", "pg_type", "typname = pg_bare(a)")
_NAMED = _found("relname", "pg_class", "oid = CAST(a AS UINTEGER)")
_COMMENT = _found("description", "pg_description", "objoid = a AND objsubid = 0")
_DEFINITION = _found("shown", "dpsql_definitions", "oid = a")
_SYSTEM = " ".join(f"WHEN '{name}' THEN CAST({oid} AS UINTEGER)" for name, oid in SYSTEM_OIDS.items())
_DIGITS = "(CAST(b AS INTEGER) - 4)"  # of numeric(digits, after the point)
_SHOWN = (
    f"CASE WHEN oid = {NUMERIC} AND b > 4 "
    f"THEN shown || '(' || ({_DIGITS} >> 16) || ',' || ({_DIGITS} & 65535) || ')' ELSE shown END"
)
_LONG_AGO = "CAST('2000-01-01 00:00:00+00' AS TIMESTAMP WITH TIME ZONE)"
_IN_QUOTES = "'\"' || replace(a, '\"', '\"\"') || '\"'"
_ESCAPED = "replace(replace(CAST(a AS VARCHAR), '\\', '\\\\'), '\"', '\\\"')"

FIRST_MACROS: dict[str, str] = {
    "pg_bare": "(a) AS lower(regexp_replace(replace(a, '\"', ''), '^(public|pg_catalog)\\.', ''))",
    "format_type": f"(a, b) AS {_found(_SHOWN, 'dpsql_types', 'oid = a')}",
}
"""What others call, and so is made before them."""

MACROS: dict[str, str] = {
    **{name: _each(4, "NULL") for name in _NOTHING},
    **{name: _each(4, "true") for name in _TRUE},
    **{name: _each(3, "false") for name in _FALSE},
    **{name: _each(2, "CAST(0 AS BIGINT)") for name in _ZERO},
    "pg_get_userbyid": "(a) AS CASE WHEN a = 10 THEN 'dpsql' ELSE 'unknown (OID=' || a || ')' END",
    "pg_encoding_to_char": "(a) AS 'UTF8'",
    "pg_char_to_encoding": "(a) AS 6",
    "pg_size_pretty": "(a) AS a || ' bytes'",
    "pg_is_in_recovery": "() AS false",
    "pg_jit_available": "() AS false",
    "pg_my_temp_schema": "() AS CAST(0 AS UINTEGER)",
    "pg_backend_pid": "() AS 0",
    "pg_advisory_unlock_all": "() AS NULL",
    "pg_postmaster_start_time": f"() AS {_LONG_AGO}",
    "pg_conf_load_time": f"() AS {_LONG_AGO}",
    "txid_current": "() AS CAST(1 AS BIGINT)",
    "pg_partition_ancestors": "(a) AS CAST(a AS UINTEGER)",
    "pg_partition_root": "(a) AS CAST(a AS UINTEGER)",
    "current_schemas": "(a) AS CASE WHEN a THEN ['pg_catalog', 'public'] ELSE ['public'] END",
    "quote_ident": f"(a) AS CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*') THEN a ELSE {_IN_QUOTES} END",
    "quote_literal": "(a) AS '''' || replace(a, '''', '''''') || ''''",
    "pg_json": "(a) AS CASE WHEN a IS NULL THEN 'null' "
    f"WHEN typeof(a) = 'VARCHAR' THEN '\"' || {_ESCAPED} || '\"' ELSE CAST(a AS VARCHAR) END",
    "pg_expanded": "(a) AS list_transform(range(1, len(a) + 1), lambda i: {'x': a[i], 'n': i})",
    "pg_array": "(a) AS CASE WHEN a = '{}' THEN CAST([] AS VARCHAR[]) "
    "ELSE string_split(replace(trim(a, '{}'), '\"', ''), ',') END",
    "array_upper": "(a, b) AS len(a)",
    "array_lower": "(a, b) AS CASE WHEN len(a) > 0 THEN 1 END",
    "pg_class_named": f"(a) AS COALESCE({_CLASS}, CASE pg_bare(a) {_SYSTEM} END)",
    "pg_class_name": f"(a) AS COALESCE({_NAMED}, CAST(a AS VARCHAR))",
    "pg_type_named": f"(a) AS {_TYPE}",
    "pg_type_name": "(a) AS format_type(CAST(a AS UINTEGER), NULL)",
    "pg_namespace_named": f"(a) AS {_found('oid', 'pg_namespace', 'nspname = pg_bare(a)')}",
    "pg_namespace_name": f"(a) AS {_found('nspname', 'pg_namespace', 'oid = CAST(a AS UINTEGER)')}",
    "to_regclass": f"(a) AS {_CLASS}",
    "to_regtype": f"(a) AS {_TYPE}",
    "obj_description": f"(a) AS {_COMMENT}, (a, b) AS {_COMMENT}",
    "col_description": f"(a, b) AS {_found('description', 'pg_description', 'objoid = a AND objsubid = b')}",
    "pg_get_constraintdef": _each(2, _DEFINITION),
    "pg_get_indexdef": f"(a) AS {_DEFINITION}, (a, b, c) AS CASE WHEN b = 0 THEN {_DEFINITION} "
    f"ELSE {_found('attname', 'pg_attribute', 'attrelid = a AND attnum = b')} END",
}
"""What follows the name in CREATE MACRO, by name."""

BUILT_IN = frozenset(
    _words("""
    array_to_string btrim ltrim rtrim position array_length array_position array_append cardinality
    generate_subscripts every date_part mod row
""")
)
"""Functions of the twin's own engine that read nothing but their arguments."""

FUNCTIONS = (
    frozenset(MACROS)
    | {"format_type"}
    | BUILT_IN
    | {"current_setting", "set_config", "_pg_expandarray", "json_build_object", "all", "getpgusername"}
)
"""Every function that a query of catalogs may call by name."""
