-- Private rows, as dbt makes them: nothing has left yet.
{{ config(materialized='external', location='long_visits.parquet') }}
select person, day, city, minutes from read_parquet('../visits.parquet') where minutes >= 10
